//! Which depot, and with which token.

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
    /// As they are now. Empty ones count as not set, as shells leave them.
    pub fn read() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self { url: variable("TERAHAUL_URL"), token: variable("TERAHAUL_TOKEN") }
    }
}

impl DepotSettings {
    /// Settles the depot: `--to`, then the environment, then the last login. A stored token goes only to the depot
    /// that it was stored for, and the token of the environment belongs with the address of the environment.
    pub fn settle(to: Option<&str>, environment: &Environment, login: &LoginFile) -> Result<Self, Failure> {
        let named = |text: &str, from: &str| {
            text.parse::<Endpoint>().map_err(|error| Failure::usage(format!("{from}: {error}")))
        };
        let from_environment =
            environment.url.as_deref().map(|url| named(url, "TERAHAUL_URL")).transpose()?;
        let wanted = match to {
            Some(url) => Some(named(url, "--to")?),
            None => from_environment.clone(),
        };
        let Some(mut endpoint) = wanted else {
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
        let stored = login.find(&endpoint);
        let same_as_environment = from_environment.as_ref().is_none_or(|other| same_depot(other, &endpoint));
        let credential = match (&environment.token, stored) {
            (Some(token), _) if same_as_environment => token.clone(),
            (_, Some(stored)) => stored.token.clone(),
            (Some(_), None) => {
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
        // An address typed short still gets the certificate that was pinned for it.
        if endpoint.pin.is_none() {
            endpoint.pin = from_environment
                .filter(|other| same_depot(other, &endpoint))
                .and_then(|other| other.pin)
                .or_else(|| login.find(&endpoint)?.url.parse::<Endpoint>().ok()?.pin);
        }
        Ok(Self { endpoint, credential })
    }
}

fn same_depot(a: &Endpoint, b: &Endpoint) -> bool {
    a.host.eq_ignore_ascii_case(&b.host) && a.port == b.port
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
        let settings = DepotSettings::settle(to, env, login).unwrap();
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
    fn a_token_is_never_sent_to_another_depot() {
        let env = environment("https://e:3/", "tht_e");
        assert!(DepotSettings::settle(Some("https://other:1"), &env, &login()).is_err());
        assert!(DepotSettings::settle(Some("https://a:2"), &environment("", ""), &login()).is_err());
        let token_alone = environment("", "tht_t");
        assert_eq!(settled(Some("https://other:1"), &token_alone, &LoginFile::default()).1, "tht_t");
    }

    #[test]
    fn without_settings_the_error_says_what_to_set() {
        let error = DepotSettings::settle(None, &environment("", "tht_secret"), &LoginFile::default()).err();
        let error = error.unwrap();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(error.message.contains("TERAHAUL_URL") && !error.message.contains("secret"));
    }
}
