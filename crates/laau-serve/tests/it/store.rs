//! Both stores: one suite that each must pass, and what only one of them can do wrong.

mod conformance;
mod embedded;
pub(crate) mod postgres;
mod restarts;
mod sample;
mod server;

use laau_serve::store::Store;

/// Where stores live: every call opens the same one again.
trait Place {
    fn open(&self) -> Box<dyn Store>;
}

/// Runs every test of the suite on both stores.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod on_the_embedded_store {
            $(#[test] fn $test() { super::conformance::$test(&super::embedded::Folder::new()); })*
        }

        mod on_postgresql {
            $(#[test] fn $test() {
                if let Some(place) = super::postgres::Database::new(stringify!($test)) {
                    super::conformance::$test(&place);
                }
            })*
        }
    };
}

on_both! {
    a_new_store_knows_nothing,
    what_was_committed_is_there_after_opening_again,
    a_batch_is_written_as_a_whole_or_not_at_all,
    an_entry_that_exists_already_is_not_written_twice,
    a_key_stands_for_one_entry_of_a_period,
    a_batch_without_the_epoch_of_its_accounts_writes_nothing,
    entries_come_in_order_from_a_number_on,
    keys_are_found_in_the_periods_asked_for,
    numbers_come_back_to_the_last_bit,
    forgotten_periods_are_gone_and_the_others_stay,
    a_long_period_is_forgotten_piece_by_piece,
    a_policy_of_20_mb_comes_back,
    names_and_keys_of_every_allowed_character_are_kept_apart,
    api_keys_are_kept_and_revoked,
    a_number_that_is_none_is_refused,
    an_empty_batch_is_no_fault,
}
