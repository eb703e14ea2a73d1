//! A file over QUIC, by quinn, for the benchmark: what a ready-made UDP transport does on the same machine. It is encrypted with
//! AES-128-GCM and written, and not hashed.
//!
//! `terahaul-bench-quinn serve ADDRESS PORT`: prints its port and, until it is ended, writes what each connection brings to the path that
//! the connection names. Only for loopback and a lab's own network: whoever reaches it writes wherever it may.
//! `terahaul-bench-quinn send ADDRESS PORT SOURCE TARGET`: sends a file over one stream, and returns when it is written.
//!
//! The stream carries the target's path, a zero byte and the file.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustix::net::sockopt;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PIECE: usize = 256 << 10;
/// What the path may have under way: more than loopback ever has, and than 1 Gbit/s has on 100 ms.
const WINDOW: u32 = 64 << 20;
/// The datagrams that Terahaul uses there.
const DATAGRAM: u16 = 8_952;
/// What the system keeps of a socket's datagrams, as for Terahaul. A buffer of the usual 208 KiB overflows in bursts of large
/// datagrams, which quinn takes for a path that swallows those, and sends small ones for a minute.
const SYSTEM_BUFFER: usize = 4 << 20;

/// The cipher that Terahaul uses.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(DATAGRAM);
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into())
        .mtu_discovery_config(Some(mtu));
    Arc::new(transport)
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", host, port] => serve(address(host, port)?).await,
        ["send", host, port, source, target] => send(address(host, port)?, source, target).await,
        _ => Err("usage: serve ADDRESS PORT | send ADDRESS PORT SOURCE TARGET".into()),
    }
}

fn address(host: &str, port: &str) -> Fallible<SocketAddr> {
    Ok(SocketAddr::new(host.parse::<IpAddr>()?, port.parse()?))
}

fn socket(address: SocketAddr) -> Fallible<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // Root may have more than the system's limit; whatever comes of it is used.
    if sockopt::set_socket_recv_buffer_size_force(&socket, SYSTEM_BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SYSTEM_BUFFER);
    }
    let _ = sockopt::set_socket_send_buffer_size(&socket, SYSTEM_BUFFER);
    Ok(socket)
}

async fn serve(address: SocketAddr) -> Fallible<()> {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(vec!["bench".into()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    let mut endpoint_config = quinn::EndpointConfig::default();
    endpoint_config.max_udp_payload_size(DATAGRAM)?;
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = Endpoint::new(endpoint_config, Some(config), socket(address)?, runtime)?;
    println!("{}", endpoint.local_addr()?.port());
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await?;
        let mut stream = connection.accept_uni().await?;
        let mut path = Vec::new();
        let mut target = None;
        while let Some(chunk) = stream.read_chunk(PIECE, true).await? {
            let mut bytes = &chunk.bytes[..];
            if target.is_none() {
                let end = bytes.iter().position(|byte| *byte == 0);
                path.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
                let Some(end) = end else { continue };
                target = Some(File::create(std::str::from_utf8(&path)?)?);
                bytes = &bytes[end + 1..];
            }
            if let Some(file) = &mut target {
                file.write_all(bytes)?;
            }
        }
        connection.close(VarInt::from_u32(0), b"");
    }
    Ok(())
}

async fn send(server: SocketAddr, source: &str, target: &str) -> Fallible<()> {
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport());
    let socket = socket((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let endpoint = Endpoint::new(quinn::EndpointConfig::default(), None, socket, Arc::new(quinn::TokioRuntime))?;
    let connection = endpoint.connect_with(config, server, "bench")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(target.as_bytes()).await?;
    stream.write_all(&[0]).await?;
    let (mut file, mut buffer) = (File::open(source)?, vec![0; PIECE]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        stream.write_all(&buffer[..read]).await?;
    }
    stream.finish()?;
    // The other end closes once all is written.
    connection.closed().await;
    Ok(())
}

/// The benchmark's own server.
#[derive(Debug)]
struct Anybody;

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
