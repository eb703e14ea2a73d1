//! Events as JSON lines.

use super::Event;

/// One line, without its end.
pub fn line(event: &Event<'_>) -> String {
    // Every event has string keys and plain values; there is nothing that cannot be written.
    serde_json::to_string(event)
        .unwrap_or_else(|error| format!("{{\"event\":\"error\",\"message\":\"{error}\"}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::PathText;

    #[test]
    fn an_event_is_one_line_with_its_name_first() {
        let path = PathText::from(&b"a\nb\xff"[..]);
        let event = Event::Failure { path, cause: "vanished", message: "it is\ngone" };
        let line = line(&event);
        assert!(line.starts_with("{\"event\":\"failure\"") && !line.contains('\n'), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["path_hex"], "610a62ff");
    }

    #[test]
    fn a_result_has_its_fields_at_the_top() {
        let result = serde_json::json!({"link": "https://x/"});
        let line = line(&Event::Done { command: "send", result, text: "for people".into() });
        assert_eq!(line, r#"{"event":"done","command":"send","link":"https://x/"}"#);
    }
}
