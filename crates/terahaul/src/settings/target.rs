//! A transfer, as the user names it.

use std::io::Read;

use terahaul_core::TransferId;
use terahaul_net::endpoint::Link;

use crate::blocking::blocking;
use crate::exit::Failure;
use crate::settings::{DepotSettings, Environment, LoginFile};

const NO_IDENTIFIER: &str = "that is neither a transfer's identifier, as 'terahaul list' prints it, nor a link, which must be quoted in a shell";

/// A transfer and the right to read it.
pub struct Target {
    /// Where, and with what right.
    pub depot: DepotSettings,
    /// Which one.
    pub transfer: TransferId,
}

impl Target {
    /// Reads a link, an identifier (with the depot's settings), or `-` for one of them on stdin.
    pub async fn settle(text: &str, to: Option<&str>, environment: &Environment) -> Result<Self, Failure> {
        let text = match text {
            "-" => blocking(|| read_one_line(NOTHING_PIPED)).await??,
            text => text.to_owned(),
        };
        let text = as_pasted(&text);
        if let Ok(transfer) = text.parse() {
            return Ok(Self { depot: DepotSettings::settle(to, environment, LoginFile::stored)?, transfer });
        }
        let link: Link = text.parse().map_err(|error| {
            let is_word = !text.contains(['/', ':']);
            if is_word { Failure::usage(NO_IDENTIFIER) } else { Failure::usage(error) }
        })?;
        let depot = DepotSettings { endpoint: link.endpoint, credential: link.secret };
        Ok(Self { depot, transfer: link.transfer })
    }
}

/// Out of a mail or a page: without the brackets, quotes or full stop around it, and with `&` where HTML has another way to write that. No link and
/// no identifier begins or ends so.
fn as_pasted(text: &str) -> String {
    let is_around = |c: char| c.is_whitespace() || "<>()[]{}'\"“”„‘’«»,;.!".contains(c);
    text.trim_matches(is_around).replace("&amp;", "&")
}

/// What is wrong where stdin is empty.
const NOTHING_PIPED: &str = "nothing came from stdin: pipe the line in, or give it otherwise";

/// One line of stdin, without the space around it. Longer than any link or token is refused. Blocks: whoever waits for it has to
/// hear an interrupt meanwhile. `nothing` is what is wrong where there is none.
pub fn read_one_line(nothing: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    let mut stdin = std::io::stdin().lock();
    loop {
        match stdin.read(&mut byte) {
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => bytes.push(byte[0]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::usage(format!("stdin could not be read: {error}"))),
        }
        if bytes.len() > 4096 {
            return Err(Failure::usage("the first line of stdin is too long for what is expected there"));
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage("stdin does not hold text"))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::usage(nothing));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that it pins was dropped without a word.
    #[test]
    fn a_link_is_understood_as_it_stands_in_a_mail() {
        let link = "https://depot:8750/t/ipaesxc4kjxri4gtglmx7lkrfu#thl_a-b_c&fp=00ff";
        for pasted in
            [format!("<{link}>"), format!(" “{link}”. "), format!("({link}),"), link.replace('&', "&amp;")]
        {
            assert_eq!(as_pasted(&pasted), link, "{pasted}");
        }
    }
}
