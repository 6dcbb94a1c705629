//! Things the kernel counts for a whole machine, taken until it says no: `many N`.

use libc::*;

use crate::{
    count,
    sys::{Said, at, call},
    tries::Tries,
};

/// Files, watches, sockets, message queues, shared memory, semaphores, timers.
pub(crate) fn many(args: &[String], tries: &mut Tries) {
    let most = count(args, 0, 10_000).min(100_000);
    taken(tries, "files", most, |_| call(SYS_open, [at(c"/dev/null"), O_RDONLY as usize, 0]));
    taken(tries, "watchers", most, |_| call(SYS_inotify_init1, [0]));
    taken(tries, "sockets", most, |_| call(SYS_socket, [AF_UNIX as usize, SOCK_STREAM as usize, 0]));
    taken(tries, "message queues", most.min(500), |index| {
        let name = crate::sys::text(&format!("toolgate-probe-{index}"));
        let queue = call(SYS_mq_open, [at(name.to_bytes_with_nul()), (O_RDWR | O_CREAT) as usize, 0o600, 0]);
        let _ = call(SYS_mq_unlink, [at(name.to_bytes_with_nul())]);
        queue
    });
    taken(tries, "shared memory", most.min(50), |_| {
        let segment = call(SYS_shmget, [IPC_PRIVATE as usize, 4096, 0o600 | IPC_CREAT as usize])?;
        call(SYS_shmctl, [segment, IPC_RMID as usize, 0])
    });
    taken(tries, "semaphores", most.min(50), |_| {
        let set = call(SYS_semget, [IPC_PRIVATE as usize, 1, 0o600 | IPC_CREAT as usize])?;
        call(SYS_semctl, [set, 0, IPC_RMID as usize, 0])
    });
    taken(tries, "messages", most.min(50), |_| {
        let queue = call(SYS_msgget, [IPC_PRIVATE as usize, 0o600 | IPC_CREAT as usize])?;
        call(SYS_msgctl, [queue, IPC_RMID as usize, 0])
    });
}

/// Takes until refused, in a child, so that everything is given back.
fn taken(tries: &mut Tries, what: &str, most: u64, take: impl Fn(u64) -> Said) {
    tries.in_child(what, || {
        for index in 0..most {
            if let Err(errno) = take(index) {
                return if index == 0 { Err(errno) } else { Ok(index as usize) };
            }
        }
        Ok(most as usize)
    });
}
