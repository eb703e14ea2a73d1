//! What one read from a TUN device yields: one packet, or many segments that share their headers. Pure.
//!
//! The kernel hands over up to 64 KiB of TCP or UDP at once and leaves the cutting to the device (segmentation offload,
//! `virtio_net_hdr`). The path counts, delays and loses each segment for itself; neighbours that come out together are
//! given to the other side together, with headers made anew. That is what makes gigabits possible.

use std::ops::Range;

/// Bytes of `virtio_net_hdr` before each packet. Its numbers are in the machine's byte order.
pub const PREFIX: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;
const IP_TCP: u8 = 6;
const IP_UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// One packet, or segments with shared headers.
#[derive(Debug)]
pub struct Burst {
    /// The prefix and the packet, as read.
    bytes: Vec<u8>,
    /// Where the shared headers are, unless it is one packet.
    shared: Option<Shared>,
}

/// IPv4 and TCP or UDP headers that several segments share.
#[derive(Clone, Copy, Debug)]
struct Shared {
    protocol: u8,
    /// Bytes of the IP header.
    ip: usize,
    /// Bytes of all headers.
    all: usize,
    /// Payload of each segment but the last.
    size: usize,
}

/// What was read is no packet that the lab understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Burst {
    /// Understands what was read: a prefix and a packet.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let prefix = bytes.get(..PREFIX).ok_or(Malformed)?;
        let packet = &bytes[PREFIX..];
        if packet.is_empty() {
            return Err(Malformed);
        }
        let kind = prefix[1] & !GSO_ECN;
        let size = usize::from(u16::from_ne_bytes([prefix[4], prefix[5]]));
        let shared = match kind {
            GSO_NONE => None,
            GSO_TCP4 => Some(Shared::find(packet, IP_TCP, size)?),
            GSO_UDP => Some(Shared::find(packet, IP_UDP, size)?),
            _ => return Err(Malformed),
        };
        Ok(Self { bytes, shared })
    }

    /// How many packets the line sees.
    pub fn count(&self) -> u16 {
        // 64 KiB over at least one byte.
        self.shared.map_or(1, |shared| (self.packet().len() - shared.all).div_ceil(shared.size) as u16)
    }

    /// Bytes of packet `index` on the line.
    pub fn len(&self, index: u16) -> u32 {
        let len = match self.shared {
            None => self.packet().len(),
            Some(shared) => shared.all + self.payload(shared, index..index + 1).len(),
        };
        len as u32
    }

    /// Prepares neighbours to be written at once: `head` becomes prefix and headers; what follows them is returned.
    pub fn write_range(&self, range: Range<u16>, head: &mut Vec<u8>) -> &[u8] {
        head.clear();
        let Some(shared) = self.shared else {
            return &self.bytes;
        };
        let payload = self.payload(shared, range.clone());
        head.extend_from_slice(&self.bytes[..PREFIX + shared.all]);
        let (prefix, headers) = head.split_at_mut(PREFIX);
        shared.write_prefix(prefix, &range);
        shared.write_headers(headers, &range, range.end == self.count(), payload.len());
        payload
    }

    /// The buffer, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn packet(&self) -> &[u8] {
        &self.bytes[PREFIX..]
    }

    fn payload(&self, shared: Shared, range: Range<u16>) -> &[u8] {
        let payload = &self.packet()[shared.all..];
        let end = (usize::from(range.end) * shared.size).min(payload.len());
        &payload[usize::from(range.start) * shared.size..end]
    }
}

impl Shared {
    fn find(packet: &[u8], protocol: u8, size: usize) -> Result<Self, Malformed> {
        let ip = usize::from(packet[0] & 0x0f) * 4;
        if packet[0] >> 4 != 4
            || ip < 20
            || packet.len() < ip + UDP_HEADER
            || packet[9] != protocol
            || size == 0
        {
            return Err(Malformed);
        }
        let all = match protocol {
            IP_UDP => ip + UDP_HEADER,
            _ => ip + usize::from(packet.get(ip + 12).ok_or(Malformed)? >> 4) * 4,
        };
        if packet.len() <= all || (protocol == IP_TCP && all < ip + 20) {
            return Err(Malformed);
        }
        Ok(Self { protocol, ip, all, size })
    }

    fn write_prefix(&self, prefix: &mut [u8], range: &Range<u16>) {
        let (kind, checksum_at) = if self.protocol == IP_TCP { (GSO_TCP4, 16u16) } else { (GSO_UDP, 6) };
        let several = range.len() > 1;
        prefix[0] = NEEDS_CHECKSUM;
        let ecn = if range.start == 0 { prefix[1] & GSO_ECN } else { 0 };
        prefix[1] = if several { kind | ecn } else { GSO_NONE };
        let size = if several { self.size as u16 } else { 0 };
        let lens = if several { self.all as u16 } else { 0 };
        prefix[2..4].copy_from_slice(&lens.to_ne_bytes());
        prefix[4..6].copy_from_slice(&size.to_ne_bytes());
        prefix[6..8].copy_from_slice(&(self.ip as u16).to_ne_bytes());
        prefix[8..10].copy_from_slice(&checksum_at.to_ne_bytes());
    }

    fn write_headers(&self, headers: &mut [u8], range: &Range<u16>, last: bool, payload: usize) {
        let (ip, transport) = headers.split_at_mut(self.ip);
        let total = (self.all + payload) as u16;
        let segment = transport.len() + payload;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(range.start);
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[10..12].fill(0);
        let checksum = !ones_sum(0, ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        // The receiving kernel takes the sum over addresses, protocol and length as "to be completed".
        let unfinished = ones_sum(u32::from(self.protocol) + segment as u32, &ip[12..20]);
        if self.protocol == IP_UDP {
            transport[4..6].copy_from_slice(&(segment as u16).to_be_bytes());
            transport[6..8].copy_from_slice(&unfinished.to_be_bytes());
            return;
        }
        let skipped = u32::from(range.start) * self.size as u32;
        let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        transport[4..8].copy_from_slice(&sequence.wrapping_add(skipped).to_be_bytes());
        if !last {
            transport[13] &= !(TCP_FIN | TCP_PSH);
        }
        if range.start > 0 {
            transport[13] &= !TCP_CWR;
        }
        transport[16..18].copy_from_slice(&unfinished.to_be_bytes());
    }
}

/// The one's complement sum of big-endian words, which IP's checksums are made of.
fn ones_sum(start: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum = words.fold(start, |sum, word| sum + word);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 1448;

    /// TCP with twelve bytes of options, as Linux sends it: time stamps.
    fn tcp(payload: usize) -> Vec<u8> {
        let mut bytes = vec![NEEDS_CHECKSUM, GSO_TCP4];
        for number in [52u16, SIZE as u16, 20, 16] {
            bytes.extend(number.to_ne_bytes());
        }
        let mut packet =
            vec![0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, IP_TCP, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        packet.extend([0x13, 0x88, 0x14, 0x51, 0xff, 0xff, 0xfc, 0x00, 0, 0, 0, 9, 0x80]);
        packet.extend([TCP_FIN | TCP_PSH | 0x10, 1, 0, 0, 0, 0, 0]);
        packet.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        packet.extend((0..payload).map(|n| (n / 7) as u8));
        bytes.extend(packet);
        bytes
    }

    fn u16_at(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    proptest! {
        #[test]
        fn every_way_of_cutting_gives_the_same_bytes_in_order(
            payload in 1usize..60_000,
            cuts in proptest::collection::vec(1u16..10, 1..50),
        ) {
            let burst = Burst::parse(tcp(payload)).unwrap();
            let count = burst.count();
            prop_assert_eq!(usize::from(count), payload.div_ceil(SIZE));
            let on_the_line: u32 = (0..count).map(|index| burst.len(index)).sum();
            prop_assert_eq!(on_the_line as usize, payload + 52 * usize::from(count));
            let (mut start, mut out, mut head) = (0, Vec::new(), Vec::new());
            let mut cuts = cuts.iter().cycle();
            while start < count {
                let end = (start + cuts.next().unwrap()).min(count);
                let body = burst.write_range(start..end, &mut head);
                let headers = &head[PREFIX..];
                prop_assert_eq!(head[1], if end - start > 1 { GSO_TCP4 } else { GSO_NONE });
                prop_assert_eq!(ones_sum(0, &headers[..20]), 0xffff, "the IP checksum is right");
                prop_assert_eq!(usize::from(u16_at(headers, 2)), headers.len() + body.len());
                let sequence = u32::from_be_bytes(headers[24..28].try_into().unwrap());
                prop_assert_eq!(sequence, 0xffff_fc00u32.wrapping_add(out.len() as u32));
                prop_assert_eq!(headers[33] & (TCP_FIN | TCP_PSH) != 0, end == count);
                out.extend_from_slice(body);
                start = end;
            }
            prop_assert_eq!(&out[..], &tcp(payload)[PREFIX + 52..]);
        }

        #[test]
        fn whatever_is_read_is_understood_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(burst) = Burst::parse(bytes) {
                let mut head = Vec::new();
                for index in 0..burst.count() {
                    prop_assert!(burst.len(index) > 0);
                    burst.write_range(index..index + 1, &mut head);
                }
            }
        }
    }

    #[test]
    fn one_packet_passes_as_it_came() {
        let mut bytes = vec![0; PREFIX];
        bytes.extend([0x45; 60]);
        let burst = Burst::parse(bytes.clone()).unwrap();
        assert_eq!((burst.count(), burst.len(0)), (1, 60));
        let mut head = Vec::new();
        assert_eq!(burst.write_range(0..1, &mut head), bytes);
        assert!(head.is_empty());
    }
}
