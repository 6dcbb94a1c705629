//! The conformance suite on SQLite.

use std::sync::Arc;

use tempfile::{TempDir, tempdir};
use toolgate_store::state::{SqliteState, State};

use crate::conformance::{self, Place};

/// A data directory.
struct Directory(TempDir);

impl Place for Directory {
    fn open(&self) -> Arc<dyn State> {
        Arc::new(SqliteState::open(self.0.path()).unwrap())
    }
}

macro_rules! suite {
    ($($promise:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            conformance::$promise(&Directory(tempdir().unwrap())).await;
        })*

        #[test]
        fn the_whole_suite_is_run() {
            let promises = include_str!("conformance.rs").matches("\npub(crate) async fn ").count();
            assert_eq!(promises, [$(stringify!($promise)),*].len());
        }
    };
}

suite! {
    a_question_is_asked_once_while_it_counts
    a_question_after_its_answer_is_a_new_round
    rounds_are_listed_newest_first
    a_no_is_to_a_deed
    of_one_agent_so_many_questions_wait_and_no_more
    what_waits_is_given_by_its_end_and_in_pages
    one_yes_is_enough_where_one_is_needed
    two_people_are_two_different_people
    one_no_denies_at_once
    nobody_approves_what_they_asked_for
    only_those_named_may_answer
    after_its_time_nothing_counts
    an_unknown_round_takes_no_answer
    a_yes_is_used_once
    a_yes_belongs_to_the_one_who_asked
    time_denies_and_approves_only_what_is_harmless
    a_round_is_escalated_once_per_step
    what_expires_is_told_once
    two_questions_never_share_a_name
    a_grant_is_used_as_often_as_it_says
    a_grant_ends_when_it_is_taken_back_or_its_time_is_over
    the_first_grant_that_holds_is_used
    grants_are_listed_by_agent
    an_effect_is_claimed_once
    a_key_stands_for_one_thing
    what_did_not_happen_may_be_tried_again
    only_the_holder_says_how_it_ended
    a_late_holder_is_not_heard
    an_instance_that_left_leaves_its_effects_unknown
    a_person_resolves_only_what_is_unknown
    effects_are_listed_by_what_changed_last
    evidence_stays_in_order
    spending_is_counted_by_task_day_and_ever
    a_limit_counts_nothing_when_it_is_passed
    a_full_meter_stays_full
    a_token_holds_until_it_ends_or_is_taken_back
    a_rotated_token_has_one_secret
    tokens_have_names_and_secrets_of_their_own
    the_last_use_of_a_token_is_known_to_the_minute
    a_token_taken_back_elsewhere_holds_no_longer_here
    a_login_code_opens_once_and_in_time
    an_agent_is_held_back_until_a_person_lets_go
    two_racers_for_a_yes_get_one
    racers_for_the_last_uses_get_as_many_as_there_are
    racers_for_an_effect_get_one_ticket
    racers_for_a_login_code_get_in_once
    racers_for_a_limit_stay_within_it
    racers_to_escalate_escalate_once
    everything_is_there_after_closing
    a_closed_state_answers_nothing
}
