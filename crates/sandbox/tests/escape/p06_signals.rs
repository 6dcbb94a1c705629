//! P-06, P-21: signals reach nobody outside.

use std::time::Duration;

use toolgate_contract::Ending;

use crate::{
    bench::within,
    f24_proc::room_user,
    host::{Victim, eventually},
};

const REFUSALS: [i32; 3] = [libc::EPERM, libc::ESRCH, libc::ENOSYS];

in_every_room! {
    /// P-06. First it is asked who could be reached. Only if that is nobody outside, everything is killed.
    fn to_those_outside(bench) {
        let room = bench.room();
        let mut victim = Victim::new(&bench.probe_path(), room_user(bench, &*room));
        let (own, parent) = (std::process::id().to_string(), std::os::unix::process::parent_id().to_string());
        bench.probe_in(&*room, &["signal", &victim.id(), &own, &parent]).all_refused_with(&REFUSALS);
        assert!(!bench.control(&["signal", &victim.id()]).worked().is_empty(), "from the host it can be signalled");

        let sibling = bench.room();
        let ran = bench.run(&*room, &["kill-all"], within(Duration::from_secs(20)));
        // It may have killed itself along the way; whatever is outside must not notice.
        assert!(matches!(ran.ending, Ending::Exited { .. } | Ending::Signaled { .. }), "{:?}", ran.ending);
        assert!(victim.is_alive(), "the victim");
        bench.probe_in(&*sibling, &["status"]);
        assert!(eventually(Duration::from_secs(2), || bench.survivors() == [victim.id()]), "{:?}", bench.survivors());
        // The same room, or an honest word that it is gone.
        if room.is_alive() {
            bench.probe_in(&*room, &["status"]);
        }
    }

    /// P-21. A job that ends its own init ends; nothing of it stays, and the runtime is told the truth.
    fn to_its_own_init(bench) {
        let room = bench.room();
        let said = bench.run(&*room, &["kill-init"], within(Duration::from_secs(20)));
        let is_honest = matches!(said.ending, Ending::Exited { .. } | Ending::Signaled { .. } | Ending::RoomLost);
        assert!(is_honest, "{:?}", said.ending);
        assert!(eventually(Duration::from_secs(2), || bench.survivors().is_empty()), "{:?}", bench.survivors());
    }
}
