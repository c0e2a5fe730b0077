//! The binary as its users see it: arguments in, standard streams, files and exit code out.
//!
//! `UPDATE_GOLDEN=1` rewrites `tests/it/golden/` and `docs/cli.md` instead of comparing with them; look at the
//! difference before you commit it. `DYNOSIM_SHARED` names the folder with the reports of the published simulator.

mod agreement;
mod bad_engine_args;
mod bad_flags;
mod bad_pools;
mod bad_profiles;
mod bad_traces;

mod dependencies;
mod documented;
mod faults;
mod golden;
mod graphs;
mod help;
mod later_flags;
mod limits;
mod live_kubernetes;
mod live_mocker;
mod load;
mod mutations;
mod npz;
mod place;
mod python_name;
mod refused;
mod report;
mod reports_stay;
mod rows;
mod streams;
mod swarm;
mod times;
mod trace_commands;
mod trajectories;
mod up;
