//! Properties of whole engines, each with a checker that shares no code with what it checks.

mod conservation;
mod drive;
mod equal_runs;
mod roles;
