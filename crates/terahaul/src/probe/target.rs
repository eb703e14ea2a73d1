//! What is to be probed: a depot, or any host.

use terahaul_net::endpoint::Endpoint;

use crate::exit::Failure;
use crate::settings::{DepotSettings, Environment, LoginFile, same_depot};

/// The port of a host that was named without one: ssh's, which most hosts have open.
const USUAL_PORT: u16 = 22;

/// Where to measure to.
#[derive(Clone)]
pub enum Target {
    /// A depot and a token for it.
    Depot(DepotSettings),
    /// Something that answers TCP.
    Host {
        /// Where.
        endpoint: Endpoint,
        /// Why nothing can be sent there.
        why: String,
    },
}

impl Target {
    /// Settles what was named: a depot's address, a host, a host and a port, or nothing, for the depot that is set.
    pub fn settle(
        named: Option<&str>,
        environment: &Environment,
        login: impl Fn() -> Result<LoginFile, Failure>,
    ) -> Result<Self, Failure> {
        let Some(named) = named else {
            return DepotSettings::settle(None, environment, login).map(Self::Depot);
        };
        let (endpoint, known) = if named.contains("://") {
            (named.parse::<Endpoint>().map_err(Failure::usage)?, true)
        } else {
            let endpoint = host(named)?;
            let known = is_known(&endpoint, environment, &login)?;
            (endpoint, known)
        };
        // What is no depot that a token was set for is sent none.
        if !known {
            return Ok(Self::Host { endpoint, why: "it is no depot that a token is set for".into() });
        }
        match DepotSettings::settle(Some(&endpoint.to_string()), environment, login) {
            Ok(depot) => Ok(Self::Depot(depot)),
            Err(failure) => Ok(Self::Host { endpoint, why: failure.message }),
        }
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Depot(depot) => &depot.endpoint,
            Self::Host { endpoint, .. } => endpoint,
        }
    }
}

/// `host`, `host:port`, `[::1]:port` or an address.
fn host(text: &str) -> Result<Endpoint, Failure> {
    let bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let with_port = !bare_v6 && (text.contains("]:") || !text.contains(']') && text.contains(':'));
    let url = match (bare_v6, with_port) {
        (true, _) => format!("https://[{text}]:{USUAL_PORT}"),
        (_, true) => format!("https://{text}"),
        _ => format!("https://{text}:{USUAL_PORT}"),
    };
    url.parse().map_err(|_| {
        Failure::usage(format!(
            "'{}' is neither a depot's address nor a host: give https://host:port/#sha256=…, as 'terahaul serve' prints it, or host:port",
            text.escape_debug()
        ))
    })
}

/// Whether it is the depot of the environment, or one that was logged in to.
fn is_known(
    endpoint: &Endpoint,
    environment: &Environment,
    login: impl Fn() -> Result<LoginFile, Failure>,
) -> Result<bool, Failure> {
    let set = environment.url.as_deref().and_then(|url| url.parse::<Endpoint>().ok());
    Ok(set.is_some_and(|set| same_depot(&set, endpoint)) || login()?.find(endpoint).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Result<LoginFile, Failure> {
        Ok(LoginFile::default())
    }

    fn settle(named: &str, url: &str) -> Target {
        let environment = Environment { url: Some(url.into()), token: Some("tht_secret".into()) };
        Target::settle(Some(named), &environment, none).unwrap()
    }

    fn place(target: &Target) -> (String, u16, bool) {
        let endpoint = target.endpoint();
        (endpoint.host.clone(), endpoint.port, matches!(target, Target::Depot(_)))
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for (text, host, port) in [
            ("data.example.org", "data.example.org", 22),
            ("data.example.org:8022", "data.example.org", 8022),
            ("192.0.2.1", "192.0.2.1", 22),
            ("2001:db8::1", "2001:db8::1", 22),
            ("[2001:db8::1]:443", "2001:db8::1", 443),
        ] {
            assert_eq!(place(&settle(text, "https://d:1/")), (host.into(), port, false), "{text}");
        }
        for text in ["", "a b", "host:port", "u@h", "[::1", "/etc"] {
            assert!(Target::settle(Some(text), &Environment::default(), none).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_goes_to_its_own_depot_only() {
        assert!(place(&settle("https://d:1/", "https://d:1/")).2);
        assert!(place(&settle("d:1", "https://d:1/")).2);
        assert!(!place(&settle("d:2", "https://d:1/")).2);
        assert!(!place(&settle("https://d:2/", "https://d:1/")).2);
        let token_alone = Environment { url: None, token: Some("tht_secret".into()) };
        let host = Target::settle(Some("d:22"), &token_alone, none).unwrap();
        assert!(!place(&host).2, "a host that was named without https is not known to be a depot");
    }
}
