//! The broker: holds a ToolBroker's secrets and does what the sandbox may ask of the world.
