//! Other people's APIs, through a connection of the operator's.
//!
//! A call names the connection; whoever sends the request joins the path to the connection's address, puts the
//! credentials in and sees to it that nobody else gets them. What can be seen to be wrong from the arguments alone is
//! refused here, before anything is asked of anyone.

mod address;
mod credential;

pub(crate) mod external_data;
