//! A user for whom permissions count, also where the test runs as root.

/// What runs a program as such a user: without root's power to read and write everything.
pub fn ordinary() -> Vec<String> {
    let through: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"],
        false => &[],
    };
    through.iter().map(ToString::to_string).collect()
}
