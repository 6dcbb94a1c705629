//! From a name to the addresses that may be dialled for it.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use toolgate_guard::{address::judge, host_name::HostName};

use crate::{event::Reason, rule::Rules};

/// Who knows the addresses of names.
#[derive(Clone)]
pub enum Resolver {
    /// The machine, as it looks up names for every program on it.
    System,
    /// This function, which must not block.
    Given(Arc<Answers>),
}

/// Answers for the addresses of a name.
pub type Answers = dyn Fn(&HostName) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl Resolver {
    /// The addresses of a name, now.
    pub(crate) async fn look_up(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.map(|found| found.ip()).collect()),
            Self::Given(answers) => answers(name),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Given(_) => "Given",
        })
    }
}

/// What may be dialled of what a name was found to lead to: all of it or nothing.
///
/// One bad address spoils the answer. Who controls a name controls which of its addresses is tried, so that picking the
/// good ones would let an attacker answer with both and wait.
pub(crate) fn admit(found: &[IpAddr], port: u16, rules: &Rules) -> Result<Vec<SocketAddr>, (Reason, Option<IpAddr>)> {
    if found.is_empty() {
        return Err((Reason::ResolveFailed, None));
    }
    found.iter().map(|ip| admit_one(ip.to_canonical(), port, rules)).collect()
}

fn admit_one(ip: IpAddr, port: u16, rules: &Rules) -> Result<SocketAddr, (Reason, Option<IpAddr>)> {
    let is_listed = matches!(ip, IpAddr::V4(v4) if rules.lists(v4, port));
    if !is_listed && judge(ip).is_err() {
        return Err((Reason::PrivateAddress, Some(ip)));
    }
    if !is_listed && is_own(ip) {
        return Err((Reason::OwnAddress, Some(ip)));
    }
    Ok(SocketAddr::new(ip, port))
}

/// Is it an address of this machine, which may well be a public one?
///
/// Connecting a datagram socket sends nothing; it asks the routing table which address a packet would leave from, and
/// to oneself one speaks as oneself.
fn is_own(ip: IpAddr) -> bool {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let leaves_from = |socket: UdpSocket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    UdpSocket::bind((any, 0)).and_then(leaves_from).is_ok_and(|local| local.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: &[&str], rules: &[&str], expected: Result<&[&str], Reason>) {
        let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
        let rules = Rules::parse(&rules.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        let expected = expected.map(|all| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<SocketAddr>>());
        assert_eq!(admit(&found, 443, &rules).map_err(|(reason, _)| reason), expected, "{found:?}");
    }

    #[test]
    fn public_addresses_are_dialled_as_they_are() {
        check(&["93.184.216.34"], &[], Ok(&["93.184.216.34:443"]));
        check(&["2606:4700:4700::1111", "1.1.1.1"], &[], Ok(&["[2606:4700:4700::1111]:443", "1.1.1.1:443"]));
        check(&["::ffff:1.1.1.1"], &[], Ok(&["1.1.1.1:443"]));
    }

    #[test]
    fn one_bad_address_spoils_the_answer() {
        check(&[], &[], Err(Reason::ResolveFailed));
        for bad in [
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "198.18.0.1",
            "0.0.0.0",
            "::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fd00:ec2::254",
        ] {
            check(&[bad], &[], Err(Reason::PrivateAddress));
            check(&["93.184.216.34", bad], &[], Err(Reason::PrivateAddress));
        }
    }

    #[test]
    fn a_listed_address_is_dialled_at_its_port() {
        check(&["10.0.0.1"], &["10.0.0.1:443"], Ok(&["10.0.0.1:443"]));
        check(&["::ffff:10.0.0.1"], &["10.0.0.0/8:443"], Ok(&["10.0.0.1:443"]));
        check(&["10.0.0.1"], &["10.0.0.1:80"], Err(Reason::PrivateAddress));
        check(&["10.0.0.2"], &["10.0.0.1:443"], Err(Reason::PrivateAddress));
    }

    #[test]
    fn the_machine_knows_itself() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(93, 184, 216, 34).into()));
    }
}
