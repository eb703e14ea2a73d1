//! Which depot, and with which token.

use std::ffi::OsString;

use terahaul_net::endpoint::Endpoint;

use crate::exit::Failure;
use crate::settings::LoginFile;

/// The failure's code where no depot was named at all.
pub const NO_DEPOT: &str = "no_depot";

/// A depot and the right to use it.
#[derive(Clone)]
pub struct DepotSettings {
    /// The depot.
    pub endpoint: Endpoint,
    /// A token or a link's secret.
    pub credential: String,
}

/// The variables that a client reads, taken once.
#[derive(Clone, Default)]
pub struct Environment {
    /// `TERAHAUL_URL`
    pub url: Option<String>,
    /// `TERAHAUL_TOKEN`
    pub token: Option<String>,
}

impl Environment {
    /// As they are now.
    pub fn read() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    /// Without the space around them. Empty ones count as not set, as shells leave them. What is no text is none that could be meant, and is
    /// refused as that: it does not count as not set, or another depot would be used.
    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |name| {
            let value = variable(name)?.to_string_lossy().trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        Self { url: text("TERAHAUL_URL"), token: text("TERAHAUL_TOKEN") }
    }
}

impl DepotSettings {
    /// Settles the depot: `--to`, then the environment, then the last login. A stored token goes only to the depot
    /// that it was stored for, and the token of the environment belongs with the address of the environment.
    ///
    /// `login` is asked only for what the others leave open: a login that cannot be read is in nobody's way who needs none.
    pub fn settle(
        to: Option<&str>,
        environment: &Environment,
        login: impl Fn() -> Result<LoginFile, Failure>,
    ) -> Result<Self, Failure> {
        if let Some(token) = &environment.token {
            check_token(token, "TERAHAUL_TOKEN")?;
        }
        let named = |text: &str, from: &str| {
            text.parse::<Endpoint>().map_err(|error| Failure::usage(format!("{from}: {error}")))
        };
        let from_environment =
            environment.url.as_deref().map(|url| named(url, "TERAHAUL_URL")).transpose()?;
        let wanted = match to {
            // By an option, or as a source or destination of `cp`.
            Some(url) => Some(url.parse::<Endpoint>().map_err(Failure::usage)?),
            None => from_environment.clone(),
        };
        let Some(mut endpoint) = wanted else {
            let login = login()?;
            let Some(last) = login.last() else {
                return Err(Failure {
                    code: NO_DEPOT.into(),
                    ..Failure::usage(
                        "no depot is set: set TERAHAUL_URL and TERAHAUL_TOKEN to what 'terahaul serve' prints, or run 'terahaul login URL' once",
                    )
                });
            };
            let credential = environment.token.clone().unwrap_or_else(|| last.token.clone());
            return Ok(Self { endpoint: named(&last.url, "the stored login")?, credential });
        };
        let same_as_environment = from_environment.as_ref().is_none_or(|other| same_depot(other, &endpoint));
        if endpoint.pin.is_none() && same_as_environment {
            endpoint.pin = from_environment.as_ref().and_then(|other| other.pin);
        }
        let token = environment.token.as_ref().filter(|_| same_as_environment);
        let stored = match (token, endpoint.pin) {
            (Some(_), Some(_)) => None,
            _ => login()?.find(&endpoint).cloned(),
        };
        // An address typed short still gets the certificate that was pinned for it.
        if endpoint.pin.is_none() {
            endpoint.pin = stored.as_ref().and_then(|stored| stored.url.parse::<Endpoint>().ok()?.pin);
        }
        let credential = match (token, stored) {
            (Some(token), _) => token.clone(),
            (None, Some(stored)) => stored.token,
            (None, None) if environment.token.is_some() => {
                return Err(Failure::usage(format!(
                    "TERAHAUL_TOKEN belongs to the depot of TERAHAUL_URL and is not sent to {}: run 'terahaul login' for it once",
                    endpoint.base_url()
                )));
            }
            (None, None) => {
                return Err(Failure::usage(format!(
                    "no token is set for {}: set TERAHAUL_TOKEN, or run 'terahaul login' for it once",
                    endpoint.base_url()
                )));
            }
        };
        Ok(Self { endpoint, credential })
    }
}

/// Whether both are the same host and port, whatever certificate each pins.
pub fn same_depot(a: &Endpoint, b: &Endpoint) -> bool {
    a.host.eq_ignore_ascii_case(&b.host) && a.port == b.port
}

/// Refuses what no depot has made, before it is put into a request that then cannot be sent.
pub fn check_token(token: &str, from: &str) -> Result<(), Failure> {
    if token.starts_with("thl_") {
        return Err(Failure::usage(format!(
            "{from} is a link's secret, and not a token: give the whole link to 'terahaul receive', or take the token as 'terahaul serve' prints it"
        )));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if token.bytes().all(plain) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{from} holds a character that no token has: take the token as 'terahaul serve' prints it, tht_ and what follows"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(url: &str, token: &str) -> Environment {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Environment { url: some(url), token: some(token) }
    }

    fn login() -> LoginFile {
        let mut login = LoginFile::default();
        login.remember("https://a:1/", "tht_a");
        login.remember(&format!("https://b:2/#sha256={}", "ab".repeat(32)), "tht_b");
        login
    }

    fn settled(to: Option<&str>, env: &Environment, login: &LoginFile) -> (String, String) {
        let settings = DepotSettings::settle(to, env, || Ok(login.clone())).unwrap();
        (settings.endpoint.to_string(), settings.credential)
    }

    #[test]
    fn the_flag_wins_over_the_environment_over_the_login() {
        let pinned = format!("https://b:2/#sha256={}", "ab".repeat(32));
        let env = environment("https://e:3/", "tht_e");
        let none = environment("", "");
        assert_eq!(settled(Some("https://a:1"), &env, &login()), ("https://a:1/".into(), "tht_a".into()));
        assert_eq!(settled(None, &env, &login()), ("https://e:3/".into(), "tht_e".into()));
        assert_eq!(settled(None, &none, &login()), (pinned.clone(), "tht_b".into()));
        assert_eq!(settled(Some("https://B:2"), &none, &login()).1, "tht_b");
        assert!(settled(Some("https://b:2"), &none, &login()).0.contains("#sha256=abab"), "the pin is kept");
    }

    #[test]
    fn a_variable_that_is_no_text_does_not_count_as_not_set() {
        use std::os::unix::ffi::OsStringExt;

        let variable = |name: &str| {
            let text = if name == "TERAHAUL_URL" { &b"https://e:3/\xa0"[..] } else { b"" };
            Some(OsString::from_vec(text.to_vec()))
        };
        let environment = Environment::of(variable);
        assert_eq!(environment.token, None);
        assert!(DepotSettings::settle(None, &environment, || Ok(login())).is_err());
        let variable =
            |name: &str| (name != "TERAHAUL_URL").then(|| OsString::from_vec(b"tht_\xff".to_vec()));
        assert!(DepotSettings::settle(None, &Environment::of(variable), || Ok(login())).is_err());
    }

    #[test]
    fn a_token_is_never_sent_to_another_depot() {
        let env = environment("https://e:3/", "tht_e");
        let settle = |to, env: &Environment| DepotSettings::settle(Some(to), env, || Ok(login()));
        assert!(settle("https://other:1", &env).is_err());
        assert!(settle("https://a:2", &environment("", "")).is_err());
        let token_alone = environment("", "tht_t");
        assert_eq!(settled(Some("https://other:1"), &token_alone, &LoginFile::default()).1, "tht_t");
    }

    #[test]
    fn a_login_is_read_only_where_something_is_missing() {
        let unreadable = || Err(Failure::usage("it was read"));
        let settle = |to, env: &Environment| DepotSettings::settle(to, env, unreadable).map(|_| ());
        let pinned = format!("https://e:3/#sha256={}", "ab".repeat(32));
        assert!(settle(None, &environment(&pinned, "tht_e")).is_ok());
        assert!(settle(Some("https://e:3"), &environment(&pinned, "tht_e")).is_ok());
        assert!(settle(None, &environment(&pinned, "")).is_err());
        assert!(settle(Some("https://other:1"), &environment(&pinned, "tht_e")).is_err());
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_shown() {
        for text in ["tht_a\rb", "tht_a b", "tht_\u{e9}"] {
            let error = check_token(text, "TERAHAUL_TOKEN").err().unwrap();
            assert!(!error.message.contains(text) && error.exit == crate::exit::Exit::Usage);
        }
        assert!(check_token("tht_aZ09-_", "it").is_ok());
    }

    #[test]
    fn without_settings_the_error_says_what_to_set() {
        let none = || Ok(LoginFile::default());
        let error = DepotSettings::settle(None, &environment("", "tht_secret"), none).err();
        let error = error.unwrap();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(error.message.contains("TERAHAUL_URL") && !error.message.contains("secret"));
    }
}
