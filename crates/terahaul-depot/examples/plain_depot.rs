//! A depot over plain HTTP on loopback, to try the API with `curl`: `plain_depot DATA [PORT]`.

use terahaul_depot::{Depot, DepotConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("usage: plain_depot DATA [PORT]")?;
    let port: u16 = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let mut config = DepotConfig::new(data);
    config.overcommit = std::env::var_os("OVERCOMMIT").is_some();
    let depot = Depot::open(config).await?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    depot.set_link_base(&url, None);
    println!("{url}/#signin={}", depot.sign_in_code()?);
    println!("{}", depot.owner_token().await?);
    axum::serve(listener, depot.http_router()).await?;
    Ok(())
}
