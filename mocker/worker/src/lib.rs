//! The simulated engine on a wall clock, serving Dynamo's live contract.
