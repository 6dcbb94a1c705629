//! Which addresses belong to the public internet, and what the others are.
//!
//! The tables follow the IANA registries of special-purpose addresses for IPv4 and IPv6 as they were read in November
//! 2026 (the registry for IPv6 had last changed on 2025-10-09), plus multicast, and the addresses under which clouds
//! hand out credentials: some of those look public. `Ipv4Addr::is_global` is not stable, so there is no help in the
//! standard library.
//!
//! An IPv6 address that carries an IPv4 one on its way (mapped, NAT64, ISATAP) is judged as the one it carries.
//! The tunnels nobody is reached by any more (6to4, Teredo, compatible and translated forms) are refused whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Is it an address of the public internet? If not, what is it?
pub fn judge(address: IpAddr) -> Result<(), Special> {
    match address {
        IpAddr::V4(v4) => judge_v4(v4),
        IpAddr::V6(v6) => judge_v6(v6),
    }
}

/// What an address is that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Hands out a machine's credentials in some cloud.
    Metadata,
    /// `0.0.0.0/8` and `::`, which many systems read as "this machine".
    ThisNetwork,
    /// The machine itself.
    Loopback,
    /// Somebody's own network.
    Private,
    /// Shared between a provider and its customers.
    CarrierNat,
    /// The next cable.
    LinkLocal,
    /// Held by protocols.
    Protocol,
    /// For examples in documents.
    Documentation,
    /// For measuring devices, and for this project's own synthetic addresses.
    Benchmarking,
    /// Many machines at once.
    Multicast,
    /// Kept for later, or not assigned to anybody.
    Reserved,
    /// A tunnel that hides where it goes.
    Tunnel,
}

impl Special {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::ThisNetwork => "this_network",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::CarrierNat => "carrier_nat",
            Self::LinkLocal => "link_local",
            Self::Protocol => "protocol",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::Tunnel => "tunnel",
        }
    }

    /// The rest of a sentence that begins with the address and "is".
    pub fn about(self) -> &'static str {
        match self {
            Self::Metadata => "where a cloud hands out a machine's credentials",
            Self::ThisNetwork => "read as this machine by many systems",
            Self::Loopback => "the machine itself",
            Self::Private => "in somebody's private network",
            Self::CarrierNat => "in the network between a provider and its customers",
            Self::LinkLocal => "only known on the next cable",
            Self::Protocol => "held by protocols",
            Self::Documentation => "for examples in documents",
            Self::Benchmarking => "for measuring devices",
            Self::Multicast => "many machines at once",
            Self::Reserved => "not given to anybody",
            Self::Tunnel => "a tunnel that hides where it goes",
        }
    }
}

/// The IPv4 address that a packet to this IPv6 address ends at, for the embeddings that still work.
pub fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    carried_whole(address).or_else(|| isatap(address))
}

/// Clouds answer here, whatever block the address lies in. The second is public by every registry.
const METADATA_V4: [Ipv4Addr; 9] = [
    Ipv4Addr::new(169, 254, 169, 254), // AWS, Google, Azure, most others
    Ipv4Addr::new(168, 63, 129, 16),   // Azure WireServer
    Ipv4Addr::new(169, 254, 170, 2),   // AWS container credentials
    Ipv4Addr::new(169, 254, 170, 23),  // AWS pod identity
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(169, 254, 169, 250), // Rancher
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
];

const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // AWS pod identity
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),   // Scaleway
];

/// Blocks of IPv4 that are not public. Those the registry calls globally reachable (the AS112 servers, AMT) are.
const V4: [(Ipv4Addr, u32, Special); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, Special::ThisNetwork),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Special::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Special::CarrierNat),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Special::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Special::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Special::Private),
    // Two anycast addresses in it are globally reachable; no host worth a rule lives there.
    (Ipv4Addr::new(192, 0, 0, 0), 24, Special::Protocol),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Special::Documentation),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Special::Tunnel),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Special::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Special::Benchmarking),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Special::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Special::Documentation),
    // Given out for documents too, like the three above (RFC 6676).
    (Ipv4Addr::new(233, 252, 0, 0), 24, Special::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Special::Multicast),
    (Ipv4Addr::new(255, 255, 255, 255), 32, Special::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Special::Reserved),
];

/// Blocks of IPv6 that are not public, the narrower first. What is in none of them and not in `2000::/3` has not been
/// given to anybody.
const V6: [(Ipv6Addr, u32, Special); 18] = [
    (Ipv6Addr::UNSPECIFIED, 128, Special::ThisNetwork),
    (Ipv6Addr::LOCALHOST, 128, Special::Loopback),
    (Ipv6Addr::UNSPECIFIED, 96, Special::Tunnel), // IPv4-compatible
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, Special::Tunnel), // IPv4-translated
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, Special::Tunnel), // NAT64 of one's own network
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, Special::Reserved), // discard only
    (Ipv6Addr::new(0x100, 0, 0, 1, 0, 0, 0, 0), 64, Special::Reserved), // dummy prefix
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, Special::Tunnel), // Teredo
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, Special::Benchmarking),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Special::Protocol),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Special::Documentation),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, Special::Tunnel), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Special::Documentation),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, Special::Protocol), // SRv6 identifiers
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Special::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Special::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, Special::Private), // site-local
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, Special::Multicast),
];

const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

fn judge_v4(address: Ipv4Addr) -> Result<(), Special> {
    if METADATA_V4.contains(&address) {
        return Err(Special::Metadata);
    }
    match V4.iter().find(|(block, length, _)| in_v4(address, *block, *length)) {
        Some((_, _, special)) => Err(*special),
        None => Ok(()),
    }
}

fn judge_v6(address: Ipv6Addr) -> Result<(), Special> {
    if METADATA_V6.contains(&address) {
        return Err(Special::Metadata);
    }
    if let Some(carried) = carried_whole(address) {
        return judge_v4(carried);
    }
    if let Some((_, _, special)) = V6.iter().find(|(block, length, _)| in_v6(address, *block, *length)) {
        return Err(*special);
    }
    if !in_v6(address, GLOBAL_UNICAST.0, GLOBAL_UNICAST.1) {
        return Err(Special::Reserved);
    }
    match isatap(address) {
        Some(carried) => judge_v4(carried),
        None => Ok(()),
    }
}

/// The IPv4 address that a packet to this one really goes to, by the socket layer (mapped) or a gateway (NAT64).
fn carried_whole(address: Ipv6Addr) -> Option<Ipv4Addr> {
    const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    if in_v6(address, NAT64, 96) { Some(low_32(address)) } else { address.to_ipv4_mapped() }
}

/// ISATAP puts `5efe` and an IPv4 address into the lower half, under anybody's prefix.
fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    (matches!(segments[4], 0 | 0x200) && segments[5] == 0x5efe).then(|| low_32(address))
}

fn low_32(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

/// Is it in the block of this many leading bits?
pub fn in_v4(address: Ipv4Addr, block: Ipv4Addr, length: u32) -> bool {
    let differing = u32::from(address) ^ u32::from(block);
    differing.leading_zeros() >= length
}

fn in_v6(address: Ipv6Addr, block: Ipv6Addr, length: u32) -> bool {
    let differing = u128::from(address) ^ u128::from(block);
    differing.leading_zeros() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: Result<(), Special>) {
        assert_eq!(judge(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn public_addresses_pass() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "192.31.196.1",
            "192.52.193.1",
            "192.175.48.1",
            "2606:4700:4700::1111",
            "2620:4f:8000::1",
            "2a00:1450:4001:81b::200e",
            "2001:200::1",
            "2001:4860:4860::8888",
        ] {
            check(public, Ok(()));
        }
    }

    #[test]
    fn every_block_is_closed_from_its_first_to_its_last_address_and_open_beside_it() {
        use Special::*;
        for (first, last, special) in [
            ("0.0.0.0", "0.255.255.255", ThisNetwork),
            ("10.0.0.0", "10.255.255.255", Private),
            ("100.64.0.0", "100.127.255.255", CarrierNat),
            ("127.0.0.0", "127.255.255.255", Loopback),
            ("169.254.0.0", "169.254.255.255", LinkLocal),
            ("172.16.0.0", "172.31.255.255", Private),
            ("192.0.0.0", "192.0.0.255", Protocol),
            ("192.0.2.0", "192.0.2.255", Documentation),
            ("192.88.99.0", "192.88.99.255", Tunnel),
            ("192.168.0.0", "192.168.255.255", Private),
            ("198.18.0.0", "198.19.255.255", Benchmarking),
            ("198.51.100.0", "198.51.100.255", Documentation),
            ("203.0.113.0", "203.0.113.255", Documentation),
        ] {
            check(first, Err(special));
            check(last, Err(special));
            let before = u32::from(first.parse::<Ipv4Addr>().unwrap()).checked_sub(1);
            let after = u32::from(last.parse::<Ipv4Addr>().unwrap()) + 1;
            for beside in before.into_iter().chain([after]) {
                check(&Ipv4Addr::from(beside).to_string(), Ok(()));
            }
        }
        check("223.255.255.255", Ok(()));
        check("224.0.0.0", Err(Multicast));
        check("233.252.0.1", Err(Documentation));
        check("239.255.255.255", Err(Multicast));
        check("240.0.0.0", Err(Reserved));
        check("255.255.255.254", Err(Reserved));
        check("255.255.255.255", Err(Multicast));
    }

    #[test]
    fn blocks_of_ipv6_are_closed() {
        use Special::*;
        for (address, special) in [
            ("::", ThisNetwork),
            ("::1", Loopback),
            ("::2", Tunnel),
            ("::8.8.8.8", Tunnel),
            ("::ffff:0:8.8.8.8", Tunnel),
            ("64:ff9b:1::", Tunnel),
            ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Tunnel),
            ("100::", Reserved),
            ("100:0:0:1:ffff::", Reserved),
            ("100:0:0:2::", Reserved),
            ("2001::", Tunnel),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Tunnel),
            ("2001:1::1", Protocol),
            ("2001:2::1", Benchmarking),
            ("2001:20::1", Protocol),
            ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Protocol),
            ("2001:db8::1", Documentation),
            ("2002:808:808::1", Tunnel),
            ("2002:7f00:1::", Tunnel),
            ("3fff::1", Documentation),
            ("4000::1", Reserved),
            ("5f00::1", Protocol),
            ("fc00::1", Private),
            ("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("fec0::1", Private),
            ("ff02::1", Multicast),
        ] {
            check(address, Err(special));
        }
        check("3ffe::1", Ok(()));
        check("2003::1", Ok(()));
    }

    #[test]
    fn what_carries_an_ipv4_address_is_judged_as_that_address() {
        check("::ffff:8.8.8.8", Ok(()));
        check("64:ff9b::8.8.8.8", Ok(()));
        check("2a00:1450::5efe:8.8.8.8", Ok(()));
        check("::ffff:10.0.0.1", Err(Special::Private));
        check("::ffff:127.0.0.1", Err(Special::Loopback));
        check("64:ff9b::a00:1", Err(Special::Private));
        check("64:ff9b::169.254.169.254", Err(Special::Metadata));
        check("2a00:1450::5efe:10.0.0.1", Err(Special::Private));
        check("2a00:1450::200:5efe:127.0.0.1", Err(Special::Loopback));
    }

    #[test]
    fn clouds_answer_nobody() {
        for metadata in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.0.23",
            "169.254.42.42",
            "169.254.169.250",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "::ffff:168.63.129.16",
        ] {
            check(metadata, Err(Special::Metadata));
        }
    }
}
