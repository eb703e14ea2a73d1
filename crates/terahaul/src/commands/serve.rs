//! `terahaul serve`

use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use terahaul_depot::{ApiCode, Bound, Depot, DepotConfig, DepotError, ServeError, Server};
use terahaul_net::endpoint::Endpoint;
use terahaul_net::tls::{Certificate, CertificateError};
use terahaul_store::StoreError;

use crate::cli::ServeArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, printable};

pub async fn run(args: ServeArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let public: Option<Endpoint> = match &args.url {
        Some(url) => Some(url.parse().map_err(|_| {
            Failure::usage(format!(
                "'{}' is no address for --url: give what others reach this depot by, a host and perhaps a port and no path, such as https://data.example.org:8750",
                printable(url.as_bytes())
            ))
        })?),
        None => None,
    };
    let config = DepotConfig {
        quota: args.quota,
        overcommit: args.overcommit,
        expiry_days: args.expire_days,
        ..DepotConfig::new(&args.data)
    };
    // What cannot be used is refused before anything is made: the next start would find a depot there, and not say that it is new.
    let certificate = own_certificate(&args)?;
    if args.data.exists() && !args.data.is_dir() {
        return Err(Failure::usage(format!(
            "{} is not a folder: give --data a folder, or a name that is not taken",
            args.data.display()
        )));
    }
    let is_new = !args.data.join("depot.db").exists();
    let bound = Bound::to(args.listen).map_err(|error| serve_failure(&error))?;
    let listen = bound.address();
    let depot = Depot::open(config).await.map_err(|error| depot_failure(&error))?;
    let token = depot.owner_token().await.map_err(|error| depot_failure(&error))?;
    keep_token(&args.data.join("owner-token"), &token)?;
    let is_guessed = public.is_none() && listen.ip().is_unspecified();
    let mut endpoint = public.unwrap_or_else(|| reachable(listen));
    let doubts = certificate.as_ref().map(|certificate| certificate.doubts(&endpoint.host));
    let server = Server::listen(bound, depot.clone(), certificate).map_err(|error| serve_failure(&error))?;
    endpoint.pin = server.pin();
    depot.set_link_base(&endpoint.base_url(), endpoint.pin.map(|pin| pin.to_string()));
    let code = depot.sign_in_code().map_err(|error| depot_failure(&error))?;
    let page = if args.url.is_some() { endpoint.base_url() } else { page_base(listen, &endpoint) };
    output.emit(&Event::Ready {
        page: &format!("{page}/#signin={code}"),
        url: &endpoint.to_string(),
        token: &token,
        listen: listen.to_string(),
        data: args.data.to_string_lossy().into_owned(),
    });
    for doubt in doubts.iter().flatten() {
        tracing::warn!("{doubt}");
    }
    if is_guessed {
        output.notice(format!(
            "links will lead to {}: if others know this machine by another name, give it with --url",
            endpoint.host
        ));
    }
    if is_new {
        output.notice(format!("{} had no depot and has a new one now", args.data.display()));
    }
    output.notice("Ctrl-C stops the depot; what has arrived is kept");
    server.run(interrupt.state()).await;
    if let Some(error) = depot.displaced() {
        return Err(depot_failure(&error));
    }
    output.notice("stopped; senders and receivers resume when the depot runs again");
    Ok(Exit::Ok)
}

/// The certificate that `--tls-cert` and `--tls-key` name.
fn own_certificate(args: &ServeArgs) -> Result<Option<Certificate>, Failure> {
    let files = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let load = |(chain, key): (&Path, &Path)| Certificate::load(chain, key);
    files.map(load).transpose().map_err(|error| serve_failure(&error.into()))
}

/// What clients connect to when nothing else was said. A depot that listens everywhere goes by its machine's name.
fn reachable(listen: SocketAddr) -> Endpoint {
    let port = listen.port();
    if !listen.ip().is_unspecified() {
        return Endpoint { host: listen.ip().to_string(), port, pin: None };
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Endpoint { host, port, pin: None }
}

/// On this machine the page is reached in the clear, where no browser warns of the depot's own certificate.
fn page_base(listen: SocketAddr, endpoint: &Endpoint) -> String {
    let loopback = match listen.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => IpAddr::V4(ip),
        IpAddr::V6(ip) if ip.is_loopback() => IpAddr::V6(ip),
        // A system may have IPv6 turned off, and loopback alone is never without IPv4.
        any if any.is_unspecified() && endpoint.pin.is_some() => Ipv4Addr::LOCALHOST.into(),
        _ => return endpoint.base_url(),
    };
    format!("http://{}", SocketAddr::new(loopback, listen.port()))
}

/// Keeps the owner's token where only the depot's user can read it.
fn keep_token(path: &Path, token: &str) -> Result<(), Failure> {
    let text = format!("{token}\n");
    let private = |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 == 0);
    if fs::read_to_string(path).is_ok_and(|kept| kept == text) && private(path) {
        return Ok(());
    }
    let keep = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix("owner-token.")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    keep().map_err(|error| Failure::file("written", path, &error))
}

fn depot_failure(error: &DepotError) -> Failure {
    let exit = match error {
        DepotError::Locked(_)
        | DepotError::NotOwn { .. }
        | DepotError::Shared(_)
        | DepotError::Newer
        | DepotError::NoDatabase(_)
        | DepotError::DamagedDatabase { .. }
        | DepotError::ShortKey { .. } => Exit::Usage,
        DepotError::Database(_) if error.code() == ApiCode::Damaged => Exit::Usage,
        DepotError::Io { source, .. } if terahaul_store::is_no_place(source) => Exit::Usage,
        DepotError::Store(StoreError::Denied(_) | StoreError::Apart(_)) => Exit::Usage,
        _ if error.code() == ApiCode::DiskFull => Exit::NoSpace,
        _ => Exit::Unexpected,
    };
    match error.code() {
        // To a request it is the depot's own trouble; whoever starts one has named what cannot be used.
        ApiCode::Internal if exit == Exit::Usage => Failure::usage(error),
        code => Failure { exit, code: code.name().to_owned(), message: error.to_string() },
    }
}

fn serve_failure(error: &ServeError) -> Failure {
    match error {
        ServeError::Certificate(CertificateError::File { source, .. }) if terahaul_store::is_full(source) => {
            Failure::new(Exit::NoSpace, error.to_string())
        }
        ServeError::Listen { .. } | ServeError::Certificate(_) => Failure::usage(error),
        ServeError::Tls(_) => Failure::new(Exit::Unexpected, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owners_token_is_kept_where_only_the_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("owner-token");
        fs::write(&path, "tht_old\n").unwrap();
        keep_token(&path, "tht_new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "tht_new\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        keep_token(&path, "tht_new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// The former was called damaged, and what a first start lacks room for unexpected.
    #[test]
    fn a_script_can_tell_newer_data_and_a_full_disk_from_what_nobody_foresaw() {
        let newer = depot_failure(&DepotError::Newer);
        assert_eq!((newer.exit, &*newer.code), (Exit::Usage, "newer_data"));
        for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded] {
            let full = depot_failure(&DepotError::Io { what: "making keys".into(), source: kind.into() });
            assert_eq!((full.exit, &*full.code), (Exit::NoSpace, "disk_full"));
            assert!(full.message.contains("free some space"), "{}", full.message);
            let file = CertificateError::File { path: "keys/tls-key.pem".into(), source: kind.into() };
            assert_eq!(serve_failure(&file.into()).exit, Exit::NoSpace);
        }
    }

    /// It was called internal, where a port that is in use is not.
    #[test]
    fn a_data_folder_that_cannot_be_used_is_called_so_to_scripts() {
        let no_place =
            DepotError::Io { what: "making x".into(), source: std::io::ErrorKind::ReadOnlyFilesystem.into() };
        for error in [DepotError::Locked("x".into()), no_place] {
            let refused = depot_failure(&error);
            assert_eq!((refused.exit, &*refused.code), (Exit::Usage, "usage"), "{error}");
        }
    }

    #[test]
    fn the_page_is_reached_in_the_clear_on_this_machine_only() {
        let pin = terahaul_net::tls::Fingerprint([1; 32]);
        let endpoint = Endpoint { host: "depot.example".into(), port: 1, pin: Some(pin) };
        let base = |listen: &str| page_base(listen.parse().unwrap(), &endpoint);
        assert_eq!(base("127.0.0.1:8750"), "http://127.0.0.1:8750");
        assert_eq!(base("[::1]:8750"), "http://[::1]:8750");
        assert_eq!(base("0.0.0.0:8750"), "http://127.0.0.1:8750");
        assert_eq!(base("[::]:8750"), "http://127.0.0.1:8750");
        assert_eq!(base("192.0.2.1:8750"), "https://depot.example:1");
    }
}
