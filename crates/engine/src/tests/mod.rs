//! The engine's logic under a virtual clock: one thread, every boundary reachable.

mod again;
mod conductor;
mod conductor_cache;
mod conductor_ends;
mod conductor_more;
mod conductor_schemas;
mod crashes;
mod doors;
mod errands;
mod flows;
mod handle;
mod kinds;
mod pauses;
mod races;
mod reads;
mod sweeps;
mod triggers;
mod whole;
mod wishes;
mod world;
