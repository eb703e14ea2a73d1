//! Makes sure that there is a page to embed.

use std::path::Path;
use std::{fs, io};

const PLACEHOLDER: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Terahaul</title>\n\
    <p>The page was not built into this program. Run <code>make build</code>. The API under \
    <code>/api/v1</code> and the command line work without it.</p>\n</html>\n";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=../../web/dist");
    let dist = Path::new("../../web/dist");
    if !dist.join("index.html").exists() {
        fs::create_dir_all(dist)?;
        fs::write(dist.join("index.html"), PLACEHOLDER)?;
    }
    Ok(())
}
