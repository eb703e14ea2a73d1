//! What the flags, the environment and the stored login mean together.

mod bind;
mod channels;
mod compress;
mod depot;
mod listen;
mod login_file;
mod ports;
mod priority;
mod resume_key;
mod size;
mod target;
mod transport;
mod whole;
mod words;

pub use bind::parse_address;
pub use channels::{Channels, parse_channels};
pub use compress::parse_compress;
pub use depot::{DepotSettings, Environment, NO_DEPOT, check_token, same_depot};
pub use listen::parse_listen;
pub use login_file::LoginFile;
pub use ports::{parse_port, parse_ports};
pub use priority::parse_priority;
pub use resume_key::resume_key;
pub use size::parse_size;
pub use target::{Target, read_one_line};
pub use transport::parse_transport;
pub use whole::whole;
pub use words::Words;
