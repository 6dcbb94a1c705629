//! N-01, N-02, N-03, N-14, N-16, N-18, N-20, N-28: a room without a door talks to nobody.

use crate::{
    bench::within,
    host::{Listener, own_address},
    said::Said,
};

/// What a wall answers to those who want out: at once, and never by letting them wait.
const UNREACHABLE: [i32; 9] = [
    libc::ENETUNREACH,
    libc::EHOSTUNREACH,
    libc::ECONNREFUSED,
    libc::EPERM,
    libc::EACCES,
    libc::EADDRNOTAVAIL,
    libc::EAFNOSUPPORT,
    libc::ENXIO,
    libc::EINVAL,
];

/// Everything but the times must have been refused.
fn all_unreachable(said: &Said) {
    let times: Vec<&str> = said.names().into_iter().filter(|what| what.starts_with("milliseconds")).collect();
    said.all_refused_but(&times, &UNREACHABLE);
}

in_every_room! {
    /// N-01, N-03, N-20. Addresses of documentation, so that an open room reaches nobody either; and the well-known
    /// ones of clouds.
    fn other_machines(bench) {
        let said = bench.probe(&[
            "connect", "192.0.2.1:443", "198.51.100.7:80", "[2001:db8::1]:443", "169.254.169.254:80",
            "[fd00:ec2::254]:80", "100.100.100.200:80", "168.63.129.16:80", "10.0.0.1:22", "172.17.0.1:2375",
            "192.168.0.1:80", "224.0.0.251:5353", "255.255.255.255:9",
        ]);
        all_unreachable(&said);
    }

    /// N-02.
    fn this_machine(bench) {
        let listener = Listener::new();
        let port = listener.port;
        let mut targets = vec![
            format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"), format!("[::1]:{port}"), format!("127.0.0.2:{port}"),
            format!("[::ffff:127.0.0.1]:{port}"),
        ];
        targets.extend(own_address().map(|address| format!("{address}:{port}")));
        let words: Vec<&str> = ["connect"].into_iter().chain(targets.iter().map(String::as_str)).collect();
        all_unreachable(&bench.probe(&words));
        assert_eq!(listener.heard(), [""; 0], "somebody called");
        bench.control(&["connect", &targets[0]]).ok(&format!("tcp {}", targets[0]));
        assert_eq!(listener.heard().len(), 1, "from the host it is heard");
    }

    /// N-14, N-16, N-18.
    fn by_datagram(bench) {
        let listener = Listener::new();
        let port = listener.port;
        let here = [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")];
        let said = bench.probe(&[
            "udp", &here[0], &here[1], "192.0.2.53:53", "1.1.1.1:53", "8.8.8.8:443", "224.0.0.251:5353",
            "255.255.255.255:67", "[2001:db8::1]:123",
        ]);
        // On a loopback of its own a datagram may be sent; it arrives nowhere.
        let own: Vec<String> = here.iter().map(|target| format!("udp {target}")).collect();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        said.all_refused_but(if bench.has_namespaces() { &own } else { &[] }, &UNREACHABLE);
        assert_eq!(listener.heard(), [""; 0], "somebody called");
        bench.control(&["udp", &here[0]]).ok(&format!("udp {}", here[0]));
        assert_eq!(listener.heard().len(), 1, "from the host it is heard");
    }

    /// N-14. A question for a name is a message to whoever answers it.
    fn by_name(bench) {
        let said = bench.probe(&["connect", "secret-data.exfiltration.example:80", "metadata.google.internal:80"]);
        all_unreachable(&said);
        assert!(!said.names().is_empty());
    }

    /// N-21. Calls that connect without the call of that name.
    fn without_connecting_first(bench) {
        let listener = Listener::new();
        let target = format!("127.0.0.1:{}", listener.port);
        let said = bench.probe(&["fast-open", &target]);
        let own = format!("connected datagram {target}");
        let own = [own.as_str()];
        said.all_refused_but(if bench.has_namespaces() { &own } else { &[] }, &UNREACHABLE);
        let foreign = bench.probe(&["foreign", &target]);
        assert!(!foreign.worked().contains(&"i386 connect") && !foreign.worked().contains(&"x32 connect"), "{foreign:?}");
        assert_eq!(listener.heard(), [""; 0], "somebody called");
    }

    /// N-28. What the environment says about proxies changes nothing.
    fn whatever_the_environment_says(bench) {
        let listener = Listener::new();
        let target = format!("127.0.0.1:{}", listener.port);
        let room = bench.room();
        let mut job = bench.job(&["connect", &target], within(std::time::Duration::from_secs(20)));
        let proxy = format!("http://{target}");
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"] {
            job.env.insert(name.into(), proxy.clone());
        }
        job.env.insert("NO_PROXY".into(), "*".into());
        // Some of these names may be refused outright; then nothing ran, which is as good.
        if let Ok(ran) = crate::bench::run(&*room, &job) {
            all_unreachable(&Said::read(&ran.stdout.text));
        }
        assert_eq!(listener.heard(), [""; 0], "somebody called");
    }
}
