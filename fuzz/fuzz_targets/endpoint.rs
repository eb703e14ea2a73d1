//! Addresses and links as people paste them: what is read is written so that it reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_core::Rate;
use terahaul_net::endpoint::{Endpoint, Link};

fuzz_target!(|text: &str| {
    if let Ok(endpoint) = text.parse::<Endpoint>() {
        assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint.clone()));
        let _ = endpoint.server_name();
    }
    if let Ok(link) = text.parse::<Link>() {
        assert_eq!(link.to_string().parse::<Link>(), Ok(link.clone()));
        // A secret of a few letters can be part of a host's name, too.
        assert!(link.secret.len() < 12 || !format!("{link:?}").contains(&link.secret), "a secret gets into logs");
    }
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(rate.bytes_per_second() > 0);
    }
});
