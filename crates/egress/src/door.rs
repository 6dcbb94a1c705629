//! The door of a room: everything a room says to anybody comes through here.
//!
//! The sockets are bound in the room's network namespace and served from outside of it. A connection is caught with
//! the address it was meant for; the address is a synthetic one and stands for a name, or it is listed by itself, or the
//! connection is reset. Then the rules, the client's own first words, the addresses the name has at this moment, the
//! dial. The address that was judged is the address that is dialled.

use std::{
    io,
    net::{IpAddr, Shutdown, SocketAddr},
    os::fd::AsFd,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::{Builder, Runtime},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    connect::{self, Request, Wrong},
    dns::{self, Names},
    event::{Event, Reason},
    judge::{Barred, Internal, Judge, Refusal},
    lookup::{LookUps, Resolver},
    peek::{self, First},
    probe,
    rule::Rules,
    splice::Traffic,
    target::{Host, Target},
};

/// A door that is served. Dropping it closes it and every connection that goes through it.
#[derive(Debug)]
pub struct Door {
    /// What the tasks listen at, once more: a task that is told to end does so a little later.
    listeners: [std::net::TcpListener; 3],
    _tasks: JoinSet<()>,
}

impl Drop for Door {
    fn drop(&mut self) {
        // Nobody new comes to any of them from here on, and only then are those who are inside cut off.
        for listener in &self.listeners {
            // One that no longer listens has nothing to end.
            let _ = SockRef::from(listener).shutdown(Shutdown::Both);
        }
    }
}

/// The sockets of a door, bound where the room can reach them.
#[derive(Debug)]
pub struct Openings {
    /// Where caught connections arrive.
    pub tcp: std::net::TcpListener,
    /// Where caught questions about names arrive.
    pub dns_udp: std::net::UdpSocket,
    /// Where those over TCP arrive.
    pub dns_tcp: std::net::TcpListener,
    /// Where programs that know about proxies come to.
    pub connect: std::net::TcpListener,
}

/// Who may pass, and who is told.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Terms {
    /// Whom the room may talk to.
    pub rules: Rules,
    /// Which hosts may be reached at addresses that are not public, besides those the rules list as addresses.
    pub internal: Internal,
    /// Whom nobody may talk to, whatever the rules say.
    pub barred: Barred,
    /// Who knows addresses.
    pub resolver: Resolver,
    /// How much, how long.
    pub limits: Limits,
    /// Where a caught connection was meant to go: [`original_destination`] in a room.
    pub original: Arc<Original>,
    /// Told everything that happens. Must not block.
    pub events: Arc<Events>,
}

/// Says where a caught connection was meant to go.
pub type Original = dyn Fn(&TcpStream) -> io::Result<SocketAddr> + Send + Sync;
/// Is told what happens at a door.
pub type Events = dyn Fn(Event) + Send + Sync;

/// How much a room may use its door, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at the same time.
    pub connections: usize,
    /// Connections in a second; more have to wait.
    pub connects_per_second: u32,
    /// Look-ups at the same time; more have to wait. Each holds a thread until the machine's resolver gives up, and
    /// other rooms want some.
    pub look_ups: usize,
    /// How long a client may be silent before somebody is dialled for it, in case the server speaks first.
    pub silence: Duration,
    /// How long a client may take for its first words once it has begun.
    pub first_words: Duration,
    /// How long the head of a CONNECT request may take, and a question about a name over TCP.
    pub request: Duration,
    /// How long a look-up of a name may take.
    pub look_up: Duration,
    /// How long a dial may take, over all addresses of a name.
    pub dial: Duration,
    /// How long a connection may stay without a byte in either direction.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            connects_per_second: 100,
            look_ups: 8,
            silence: Duration::from_millis(300),
            first_words: Duration::from_secs(2),
            request: Duration::from_secs(5),
            look_up: Duration::from_secs(10),
            dial: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}

/// Where the kernel redirected a connection away from.
pub fn original_destination(client: &impl AsFd) -> io::Result<SocketAddr> {
    let original = SockRef::from(client).original_dst_v4()?;
    original.as_socket().ok_or_else(|| io::Error::other("the original destination is no internet address"))
}

impl Door {
    /// Serves the openings, on threads that serve doors and nothing else.
    pub fn open(openings: Openings, terms: Terms) -> io::Result<Self> {
        let runtime = RUNTIME.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let _entered = runtime.enter();
        let listeners = [openings.tcp.try_clone()?, openings.dns_tcp.try_clone()?, openings.connect.try_clone()?];
        let tcp = listen(openings.tcp)?;
        let dns_tcp = listen(openings.dns_tcp)?;
        let connect = listen(openings.connect)?;
        openings.dns_udp.set_nonblocking(true)?;
        let dns_udp = UdpSocket::from_std(openings.dns_udp)?;

        let hall = Arc::new(Hall::new(terms));
        let mut tasks = JoinSet::new();
        tasks.spawn(welcome(tcp, Arc::clone(&hall), Hall::serve_caught));
        tasks.spawn(welcome(connect, Arc::clone(&hall), Hall::serve_connect));
        tasks.spawn(welcome(dns_tcp, Arc::clone(&hall), Hall::serve_dns_tcp));
        tasks.spawn(serve_dns_udp(dns_udp, hall));
        Ok(Self { listeners, _tasks: tasks })
    }
}

/// Shared by all doors of the process, and started with the first. Apart from the threads that run calls: a room that
/// talks a lot, or looks up names nobody answers for, takes none of them.
static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .thread_name("door")
        .enable_all()
        .build()
        .map_err(|error| format!("the threads for doors cannot be started: {error}"))
});

fn listen(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// What all connections of a room share.
struct Hall {
    terms: Terms,
    names: Mutex<Names>,
    connections: Semaphore,
    questioners: Semaphore,
    judge: Judge,
    look_ups: LookUps,
}

/// Connections that ask for names, at the same time.
const MAX_QUESTIONERS: usize = 8;
/// Of the time for a dial, each address of a name gets this part at most.
const DIALS: u32 = 2;
/// Questions over UDP in a second; the kernel drops what waits too long.
const QUESTIONS_PER_SECOND: u32 = 500;
/// Questions over one connection.
const QUESTIONS_PER_CONNECTION: usize = 64;

/// Takes everybody in, at the pace a room may keep, and is not stopped by anyone's failure.
async fn welcome<F>(listener: TcpListener, hall: Arc<Hall>, serve: impl Fn(Arc<Hall>, TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut pace = Pace::new(hall.terms.limits.connects_per_second);
    let mut guests = JoinSet::new();
    loop {
        pace.wait().await;
        match listener.accept().await {
            Ok((client, _)) => {
                guests.spawn(serve(Arc::clone(&hall), client));
            }
            // Out of descriptors, most likely: those who are inside will leave.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
        while guests.try_join_next().is_some() {}
    }
}

async fn serve_dns_udp(socket: UdpSocket, hall: Arc<Hall>) {
    let mut pace = Pace::new(QUESTIONS_PER_SECOND);
    let mut message = [0; 1500];
    loop {
        pace.wait().await;
        let Ok((length, from)) = socket.recv_from(&mut message).await else { continue };
        if let Some(reply) = hall.answer(&message[..length]) {
            // Who asked and does not listen gets nothing.
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

/// Why a connection did not come to a good end.
enum Stop {
    /// Somebody was not let through, because of this address where there is one.
    Refused(Reason, Option<IpAddr>),
    /// One of the two ends went away, or neither said anything for too long.
    Gone,
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason, None)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        let reason = match refusal {
            Refusal::NoAddress => Reason::ResolveFailed,
            Refusal::NotPublic(..) | Refusal::Host(_) => Reason::PrivateAddress,
            Refusal::Own(_) => Reason::OwnAddress,
            Refusal::Barred(_) => Reason::Barred,
        };
        Self::Refused(reason, refusal.address())
    }
}

impl Hall {
    fn new(terms: Terms) -> Self {
        Self {
            names: Mutex::new(Names::new(terms.rules.clone())),
            connections: Semaphore::new(terms.limits.connections),
            questioners: Semaphore::new(MAX_QUESTIONERS),
            judge: Judge::new(terms.internal.clone().with_addresses_of(&terms.rules)).barring(terms.barred.clone()),
            look_ups: LookUps::new(terms.resolver.clone(), terms.limits.look_ups, terms.limits.look_up),
            terms,
        }
    }

    /// One caught connection, from arrival to end.
    async fn serve_caught(self: Arc<Self>, mut client: TcpStream) {
        let Ok(original) = (self.terms.original)(&client) else { return reset(client) };
        let host = self.host_at(original.ip());
        match self.pass_caught(&mut client, original, host.as_ref()).await {
            Ok(()) => return,
            Err(Stop::Gone) => {}
            Err(Stop::Refused(reason, address)) => {
                let host = host.map_or_else(|| original.ip().to_string(), |host| host.to_string());
                self.refuse(host, Some(original.port()), reason, address);
            }
        }
        reset(client);
    }

    async fn pass_caught(&self, client: &mut TcpStream, original: SocketAddr, host: Option<&Host>) -> Result<(), Stop> {
        let _place = self.connections.try_acquire().map_err(|_| Reason::TooMany)?;
        // Somebody in the room who connects to the listener itself was not redirected and meant nobody.
        if client.local_addr().is_ok_and(|own| own == original) {
            return Err(Reason::NotAllowed.into());
        }
        let target = Target { host: host.cloned().ok_or(Reason::NotAllowed)?, port: original.port() };
        target.judge(&self.terms.rules)?;
        let mut said = Said::default();
        // A client that speaks first is heard before anybody is dialled.
        if let Ok(heard) = timeout(self.terms.limits.silence, said.more(client)).await {
            heard?;
            said.hear(client, &target, self.terms.limits.first_words).await?;
        }
        let server = self.dial(&target).await?;
        self.converse(client, server, &target, said).await
    }

    /// Whom this address stands for in the room.
    fn host_at(&self, address: IpAddr) -> Option<Host> {
        let IpAddr::V4(address) = address else { return None };
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Some(names.name_at(address).cloned().map_or(Host::Address(address), Host::Name))
    }

    /// One connection of a program that knows about proxies, from its request to its end.
    async fn serve_connect(self: Arc<Self>, mut client: TcpStream) {
        let Ok(_place) = self.connections.try_acquire() else {
            return self.turn_away(client, String::new(), None, Reason::TooMany, None).await;
        };
        let (target, said) = match timeout(self.terms.limits.request, read_request(&mut client)).await {
            Ok(Ok(request)) => request,
            Ok(Err(Unasked::Gone)) => return reset(client),
            Ok(Err(Unasked::Wrong(Wrong::Method))) => return say_last(client, &connect::wrong_method()).await,
            Ok(Err(Unasked::Wrong(Wrong::Malformed))) => {
                return self.turn_away(client, String::new(), None, Reason::BadRequest, None).await;
            }
            Ok(Err(Unasked::Wrong(Wrong::Authority(shown)))) => {
                return self.turn_away(client, shown, None, Reason::BadRequest, None).await;
            }
            Err(_) => return self.turn_away(client, String::new(), None, Reason::TooSlow, None).await,
        };
        let host = target.host.to_string();
        let server = match self.admit(&target).await {
            Ok(server) => server,
            Err(Stop::Gone) => return reset(client),
            Err(Stop::Refused(reason, address)) => {
                return self.turn_away(client, host, Some(target.port), reason, address).await;
            }
        };
        if client.write_all(connect::ESTABLISHED).await.is_err() {
            return;
        }
        match self.converse(&mut client, server, &target, said).await {
            Ok(()) => return,
            Err(Stop::Gone) => {}
            Err(Stop::Refused(reason, address)) => self.refuse(host, Some(target.port), reason, address),
        }
        reset(client);
    }

    async fn admit(&self, target: &Target) -> Result<TcpStream, Stop> {
        target.judge(&self.terms.rules)?;
        self.dial(target).await
    }

    /// Dials the addresses the host has now, if every one of them may be dialled.
    async fn dial(&self, target: &Target) -> Result<TcpStream, Stop> {
        let (name, found) = match &target.host {
            Host::Name(name) => (Some(name), self.look_ups.addresses(name).await.map_err(|_| Reason::ResolveFailed)?),
            Host::Address(address) => (None, vec![IpAddr::V4(*address)]),
        };
        let addresses = self.judge.admit(name, target.port, &found)?;
        let dialled = timeout(self.terms.limits.dial, dial_any(&addresses, self.terms.limits.dial / DIALS)).await;
        dialled.ok().flatten().ok_or_else(|| Reason::DialFailed.into())
    }

    /// Carries bytes both ways until both ends are done. What the client says first is heard before it is passed on,
    /// also when it comes late.
    async fn converse(
        &self,
        client: &mut TcpStream,
        mut server: TcpStream,
        target: &Target,
        mut said: Said,
    ) -> Result<(), Stop> {
        let limits = &self.terms.limits;
        let (host, port) = (target.host.to_string(), target.port);
        let address = server.peer_addr().map_err(|_| Stop::Gone)?;
        for end in [&*client, &server] {
            // Bytes are passed on as they come; where that cannot be set, they come a little later.
            let _ = end.set_nodelay(true);
        }
        (self.terms.events)(Event::Opened { host: host.clone(), port, address });
        let traffic = Traffic::new();
        let ended = {
            let (mut client_reads, mut client_writes) = client.split();
            let (mut server_reads, mut server_writes) = server.split();
            let out = async {
                said.hear(&mut client_reads, target, limits.first_words).await?;
                traffic.pass_on(&said.bytes, &mut server_writes).await.map_err(|_| Stop::Gone)?;
                traffic.carry_out(&mut client_reads, &mut server_writes).await.map_err(|_| Stop::Gone)
            };
            let back = async { traffic.carry_in(&mut server_reads, &mut client_writes).await.map_err(|_| Stop::Gone) };
            tokio::select! {
                ended = async { tokio::try_join!(out, back) } => ended.map(|((), ())| ()),
                () = traffic.idle(limits.idle) => Err(Stop::Gone),
            }
        };
        let (sent, received) = (traffic.sent(), traffic.received());
        (self.terms.events)(Event::Closed { host, port, address, sent, received });
        ended
    }

    async fn serve_dns_tcp(self: Arc<Self>, mut client: TcpStream) {
        let Ok(_place) = self.questioners.try_acquire() else { return reset(client) };
        for _ in 0..QUESTIONS_PER_CONNECTION {
            match timeout(self.terms.limits.request, self.answer_over_tcp(&mut client)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// Over TCP a length goes before every message.
    async fn answer_over_tcp(&self, client: &mut TcpStream) -> io::Result<()> {
        let mut message = vec![0; client.read_u16().await?.into()];
        client.read_exact(&mut message).await?;
        let Some(reply) = self.answer(&message) else { return Ok(()) };
        let mut framed = u16::try_from(reply.len()).map_err(io::Error::other)?.to_be_bytes().to_vec();
        framed.extend(reply);
        client.write_all(&framed).await
    }

    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let reply = dns::answer(message, &mut self.names.lock().unwrap_or_else(PoisonError::into_inner))?;
        if let Some((name, reason)) = reply.refused {
            self.refuse(name, None, reason, None);
        }
        Some(reply.bytes)
    }

    /// Tells that somebody was not let through, unless it was the probe, which is not to be.
    fn refuse(&self, host: String, port: Option<u16>, reason: Reason, address: Option<IpAddr>) {
        if !probe::is_probe(&host) {
            (self.terms.events)(Event::Refused { host, port, reason, address });
        }
    }

    async fn turn_away(
        &self,
        client: TcpStream,
        host: String,
        port: Option<u16>,
        reason: Reason,
        address: Option<IpAddr>,
    ) {
        self.refuse(host, port, reason, address);
        say_last(client, &connect::refusal(reason)).await;
    }
}

/// The first address that answers, each given so much of the time.
async fn dial_any(addresses: &[SocketAddr], each: Duration) -> Option<TcpStream> {
    for address in addresses {
        let Ok(Ok(server)) = timeout(each, TcpStream::connect(address)).await else { continue };
        if server.peer_addr().is_ok_and(|peer| peer == *address) {
            return Some(server);
        }
    }
    None
}

/// What a client has said and nobody has passed on yet.
#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    /// It will say nothing more.
    is_over: bool,
    /// What it said is about the host it connected to.
    is_heard: bool,
}

impl Said {
    /// Waits for the first words, and for as many as it takes to know what they are. `Ok`: they may be passed on.
    async fn hear(
        &mut self,
        client: &mut (impl AsyncRead + Unpin),
        target: &Target,
        limit: Duration,
    ) -> Result<(), Stop> {
        // Whoever lists an address says nothing about names.
        let Host::Name(name) = &target.host else { return Ok(()) };
        if self.is_heard {
            return Ok(());
        }
        if self.bytes.is_empty() && !self.is_over {
            self.more(client).await?;
        }
        let first = timeout(limit, self.first(client)).await.map_err(|_| Reason::TooSlow)??;
        self.is_heard = true;
        match first {
            _ if first.is_about(name) => Ok(()),
            First::Tls(_) => Err(Reason::SniMismatch.into()),
            First::Http(_) | First::Other => Err(Reason::HostMismatch.into()),
        }
    }

    async fn first(&mut self, client: &mut (impl AsyncRead + Unpin)) -> Result<First, Stop> {
        loop {
            if self.is_over {
                return peek::read_all(&self.bytes).map_err(|_| Reason::Unreadable.into());
            }
            match peek::read(&self.bytes).map_err(|_| Reason::Unreadable)? {
                Some(first) => return Ok(first),
                None if self.bytes.len() >= peek::MAX_SAID => return Err(Reason::Unreadable.into()),
                None => self.more(client).await?,
            }
        }
    }

    /// Reads what has come; loses nothing when it is not waited for to its end.
    async fn more(&mut self, client: &mut (impl AsyncRead + Unpin)) -> Result<(), Stop> {
        self.bytes.reserve(4096);
        match client.read_buf(&mut self.bytes).await {
            Ok(0) => self.is_over = true,
            Ok(_) => {}
            Err(_) => return Err(Stop::Gone),
        }
        Ok(())
    }
}

/// Why a program that knows about proxies did not ask for anything.
enum Unasked {
    Wrong(Wrong),
    Gone,
}

/// Reads a request, and what was said behind it.
async fn read_request(client: &mut TcpStream) -> Result<(Target, Said), Unasked> {
    let mut said = Said::default();
    loop {
        if let Some(Request { target, length }) = connect::read(&said.bytes).map_err(Unasked::Wrong)? {
            said.bytes.drain(..length);
            return Ok((target, said));
        }
        said.more(client).await.map_err(|_| Unasked::Gone)?;
        if said.is_over {
            return Err(Unasked::Gone);
        }
    }
}

/// Says something and closes. What the client still sends is read and dropped for a moment: closing before it is read
/// would reset the connection and take the last words with it.
async fn say_last(mut client: TcpStream, words: &[u8]) {
    const MOMENT: Duration = Duration::from_secs(1);
    const DROPPED: u64 = 64 * 1024;
    let _ = timeout(MOMENT, async {
        client.write_all(words).await?;
        client.shutdown().await?;
        tokio::io::copy(&mut client.take(DROPPED), &mut tokio::io::sink()).await
    })
    .await;
}

/// Closes with a reset, so that the program is told at once and does not wait for an answer.
fn reset(client: TcpStream) {
    // Where that cannot be set, an ordinary end tells it too.
    let _ = client.set_zero_linger();
}

/// Lets so many pass in a second: as many as a second's worth at once, then one by one.
struct Pace {
    gap: Duration,
    /// When the next one may pass.
    next: Instant,
}

impl Pace {
    const SECOND: Duration = Duration::from_secs(1);

    fn new(per_second: u32) -> Self {
        let now = Instant::now();
        Self { gap: Self::SECOND / per_second.max(1), next: now.checked_sub(Self::SECOND).unwrap_or(now) }
    }

    async fn wait(&mut self) {
        let now = Instant::now();
        let earliest = now.checked_sub(Self::SECOND).unwrap_or(now);
        self.next = self.next.max(earliest) + self.gap;
        if self.next > now {
            sleep_until(self.next).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pace_lets_a_second_worth_pass_at_once_and_then_one_by_one() {
        let start = Instant::now();
        let mut pace = Pace::new(10);
        let mut passed = Vec::new();
        for _ in 0..13 {
            pace.wait().await;
            passed.push(start.elapsed().as_millis());
        }
        assert_eq!(passed, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 200, 300]);
        sleep(Duration::from_secs(60)).await;
        let later = Instant::now();
        for _ in 0..10 {
            pace.wait().await;
        }
        assert_eq!(later.elapsed(), Duration::ZERO);
    }
}
