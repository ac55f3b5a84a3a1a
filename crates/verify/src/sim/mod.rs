//! The simulator: the real engine, the real core and a real store, in a world that one number
//! decides. See [`world`] for the world, [`plan`] for what happens in it, [`check`] for what must
//! hold whatever happens.

mod actors;
pub mod chance;
pub mod check;
mod disk;
pub mod faults;
pub mod flows;
mod garden;
pub mod graft;
mod hub;
pub mod model;
mod outside;
pub mod plan;
pub mod points;
pub mod policy;
pub mod report;
mod restore;
pub mod scenarios;
pub mod works;
mod world;

pub use world::World;
