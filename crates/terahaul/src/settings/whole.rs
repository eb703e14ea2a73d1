//! Whole numbers of something.

use std::ops::RangeInclusive;

/// Reads one that is within `range`, and otherwise says which there may be.
pub fn whole<N: TryFrom<u64>>(
    what: &'static str,
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| match (range.start(), range.end()) {
            (least, &u64::MAX) => format!("give a whole number of {what}, {least} or more"),
            (least, most) => format!("give a whole number of {what} from {least} to {most}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_or_out_of_range_is_told_the_range() {
        let days = whole::<u32>("days", 1..=3650);
        assert_eq!((days("1"), days("3650")), (Ok(1), Ok(3650)));
        for text in ["", "0", "3651", "-1", "x", "1.5", "99999999999999999999"] {
            assert_eq!(days(text), Err("give a whole number of days from 1 to 3650".into()), "{text}");
        }
        assert_eq!(
            whole::<u64>("files", 0..=u64::MAX)("x"),
            Err("give a whole number of files, 0 or more".into())
        );
    }
}
