//! Flags of `serve` and `login`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use terahaul_core::ByteCount;

use crate::settings::{parse_listen, parse_size, whole};

/// `terahaul serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Folder for the depot's data: database, keys, transfers
    #[arg(long, value_name = "DIR", default_value = "terahaul-data", value_hint = ValueHint::DirPath)]
    pub data: PathBuf,
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8750", value_parser = parse_listen)]
    pub listen: SocketAddr,
    /// Certificate chain in PEM, leaf first; without one the depot makes and keeps its own, which clients pin
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// The address that others reach this depot by, for links and the page: https://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Most bytes that all transfers together may declare, such as 500GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub quota: Option<ByteCount>,
    /// Take transfers that are larger than the free space of the disk
    #[arg(long)]
    pub overcommit: bool,
    /// Days that a transfer is kept, unless its sender asks for another time
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole::<u32>("days", 1..=3650), allow_negative_numbers = true)]
    pub expire_days: u32,
}

/// `terahaul login`
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// The depot's address, as `terahaul serve` prints it after TERAHAUL_URL=
    #[arg(value_name = "URL")]
    pub url: String,
}
