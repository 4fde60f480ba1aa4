//! The operator: KernelSession, ToolBroker and KernelPool objects to pods, policies, certificates, status.
