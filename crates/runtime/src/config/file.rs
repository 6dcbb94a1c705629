//! The text of a config: what may be written, with the place of every word.
//!
//! Nothing is opened and nothing is judged here beyond shape: keys and types. Words stay text until `check` reads
//! them, so that all wrong words of a file are reported at once.

use serde::Deserialize;
use serde_json::Value;

use super::load::{At, Entries, ListOr, WordOr};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigFile {
    pub(super) version: Option<At<u64>>,
    pub(super) actions: Option<Entries<At<String>>>,
    pub(super) policy: Option<RulesFile>,
    pub(super) tools: Option<Entries<ToolFile>>,
    pub(super) agents: Option<Entries<AgentFile>>,
    pub(super) limits: Option<LimitsFile>,
    pub(super) protected: Option<Vec<At<String>>>,
    pub(super) commands: Option<Vec<At<CommandRuleFile>>>,
    pub(super) sandboxing: Option<SandboxingFile>,
    pub(super) tool_access: Option<ToolAccessFile>,
    pub(super) trust: Option<TrustFile>,
    pub(super) autonomy: Option<AutonomyFile>,
    pub(super) approvals: Option<ApprovalsFile>,
    pub(super) information_flow: Option<At<WordOr<FlowFile>>>,
    pub(super) redact_personal_data: Option<At<bool>>,
    pub(super) definitions: Option<DefinitionsFile>,
    pub(super) disclosure: Option<DisclosureFile>,
    pub(super) egress: Option<EgressFile>,
    pub(super) search: Option<SearchFile>,
    pub(super) connections: Option<Entries<At<ConnectionFile>>>,
    pub(super) mcp_servers: Option<Entries<At<ServerFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServerFile {
    pub(super) command: Option<At<String>>,
    pub(super) args: Option<Vec<At<String>>>,
    pub(super) env: Option<Entries<At<String>>>,
    pub(super) allowed_hosts: Option<Vec<At<String>>>,
    pub(super) workspace: Option<At<String>>,
    pub(super) access: Option<At<String>>,
    pub(super) visible: Option<Vec<At<String>>>,
    pub(super) url: Option<At<String>>,
    pub(super) headers: Option<Entries<At<String>>>,
    pub(super) connection: Option<At<String>>,
    pub(super) handshake_seconds: Option<At<u64>>,
    pub(super) request_seconds: Option<At<u64>>,
    pub(super) tools: Option<Entries<ServerToolFile>>,
    pub(super) expose: Option<Vec<At<String>>>,
    pub(super) hide: Option<Vec<At<String>>>,
    pub(super) may_ask: Option<Vec<At<String>>>,
    pub(super) offers: Option<Vec<At<String>>>,
    pub(super) disabled: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServerToolFile {
    pub(super) action: Option<At<String>>,
    pub(super) safety: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DefinitionsFile {
    pub(super) first_sight: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DisclosureFile {
    pub(super) mode: Option<At<String>>,
    pub(super) l1_token_budget: Option<At<u64>>,
    pub(super) l2_token_budget: Option<At<u64>>,
    pub(super) auto_unload_on_budget_pressure: Option<At<bool>>,
    pub(super) unload_threshold_percent: Option<At<u64>>,
    pub(super) pinned: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FlowFile {
    pub(super) mode: Option<At<String>>,
    pub(super) sinks: Option<Vec<At<SinkFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SinkFile {
    pub(super) tool: Option<At<String>>,
    pub(super) argument: Option<At<String>>,
    pub(super) from: Option<At<String>>,
    pub(super) accepts: Option<Vec<At<WordOr<PatternFile>>>>,
    pub(super) because: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PatternFile {
    pub(super) pattern: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConnectionFile {
    pub(super) base_url: Option<At<String>>,
    pub(super) kind: Option<At<String>>,
    pub(super) auth: Option<At<WordOr<AuthFile>>>,
    pub(super) sensitive: Option<At<bool>>,
    pub(super) writes: Option<At<String>>,
    pub(super) rate_limit: Option<At<u64>>,
    pub(super) description: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuthFile {
    pub(super) bearer: Option<At<String>>,
    pub(super) basic: Option<At<BasicFile>>,
    pub(super) header: Option<At<HeaderFile>>,
    pub(super) oauth2: Option<At<OAuth2File>>,
    pub(super) custom: Option<At<CustomFile>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BasicFile {
    pub(super) user: Option<At<String>>,
    pub(super) password: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HeaderFile {
    pub(super) name: Option<At<String>>,
    pub(super) value: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OAuth2File {
    pub(super) token_url: Option<At<String>>,
    pub(super) client_id: Option<At<String>>,
    pub(super) client_secret: Option<At<String>>,
    pub(super) refresh_token: Option<At<String>>,
    pub(super) scope: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CustomFile {
    pub(super) headers: Option<Entries<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct EgressFile {
    pub(super) hostname_allowlist: Option<Vec<At<String>>>,
    pub(super) name_servers: Option<Vec<At<String>>>,
    pub(super) ca_file: Option<At<String>>,
    pub(super) dns_rebinding_mitigation: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchFile {
    pub(super) provider: Option<At<String>>,
    pub(super) endpoint: Option<At<String>>,
    pub(super) connection: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RulesFile {
    pub(super) denied: Option<ListedFile>,
    pub(super) ask: Option<AskFile>,
    pub(super) allowed: Option<ListedFile>,
    pub(super) files: Option<Vec<At<FileRuleFile>>>,
    pub(super) hosts: Option<Vec<At<HostRuleFile>>>,
    pub(super) rules: Option<Vec<At<CallRuleFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CallRuleFile {
    pub(super) id: Option<At<String>>,
    pub(super) verdict: Option<At<String>>,
    pub(super) tools: Option<Vec<At<String>>>,
    pub(super) actions: Option<Vec<At<String>>>,
    pub(super) agents: Option<Vec<At<String>>>,
    pub(super) roles: Option<Vec<At<String>>>,
    pub(super) classes: Option<Vec<At<String>>>,
    pub(super) risk_at_least: Option<At<String>>,
    pub(super) when: Option<At<String>>,
    pub(super) because: Option<At<String>>,
    pub(super) instead: Option<At<String>>,
    #[serde(rename = "match")]
    pub(super) must: Option<Vec<At<ExampleFile>>>,
    #[serde(rename = "not_match")]
    pub(super) must_not: Option<Vec<At<ExampleFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExampleFile {
    pub(super) agent: Option<At<String>>,
    pub(super) tool: Option<At<String>>,
    pub(super) arguments: Option<At<Value>>,
}

/// A file of its own, beside configs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TestsFile {
    pub(super) tests: Option<Vec<At<TestFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TestFile {
    pub(super) agent: Option<At<String>>,
    pub(super) tool: Option<At<String>>,
    pub(super) arguments: Option<At<Value>>,
    pub(super) expect: Option<At<String>>,
    pub(super) rule: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileRuleFile {
    pub(super) deny: Option<Vec<At<String>>>,
    pub(super) ask: Option<Vec<At<String>>>,
    pub(super) paths: Option<Vec<At<String>>>,
    pub(super) because: Option<At<String>>,
    #[serde(rename = "match")]
    pub(super) must: Option<Vec<At<String>>>,
    #[serde(rename = "not_match")]
    pub(super) must_not: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HostRuleFile {
    pub(super) deny: Option<Vec<At<String>>>,
    pub(super) ask: Option<Vec<At<String>>>,
    pub(super) because: Option<At<String>>,
    #[serde(rename = "match")]
    pub(super) must: Option<Vec<At<String>>>,
    #[serde(rename = "not_match")]
    pub(super) must_not: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListedFile {
    pub(super) tools: Option<Vec<At<String>>>,
    pub(super) actions: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AskFile {
    pub(super) tools: Option<Vec<At<String>>>,
    pub(super) actions: Option<Vec<At<String>>>,
    pub(super) classes: Option<ListOr<At<u64>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolFile {
    pub(super) permission: Option<At<WordOr<PermissionFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PermissionFile {
    pub(super) roles: Option<Vec<At<String>>>,
    pub(super) condition: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentFile {
    pub(super) level: Option<At<String>>,
    pub(super) roles: Option<Vec<At<String>>>,
    pub(super) workspace: Option<At<String>>,
    pub(super) directories: Option<Vec<At<WordOr<DirectoryFile>>>>,
    pub(super) files: Option<Vec<At<FileRuleFile>>>,
    pub(super) hosts: Option<Vec<At<HostRuleFile>>>,
    pub(super) profile: Option<At<WordOr<ProfileFile>>>,
    pub(super) denied: Option<ListedFile>,
    pub(super) ask: Option<AskFile>,
    pub(super) allowed: Option<ListedFile>,
    pub(super) constraints: Option<ConstraintsFile>,
    pub(super) autonomy: Option<At<String>>,
    pub(super) budget: Option<BudgetFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DirectoryFile {
    pub(super) path: Option<At<String>>,
    pub(super) write: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProfileFile {
    pub(super) custom: Option<CommandListsFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CommandListsFile {
    pub(super) allow: Option<Vec<At<String>>>,
    pub(super) ask: Option<Vec<At<String>>>,
    pub(super) deny: Option<Vec<At<String>>>,
    pub(super) default: Option<At<String>>,
    pub(super) write_redirect: Option<At<String>>,
    pub(super) unparsable: Option<At<String>>,
    pub(super) own_programs: Option<At<String>>,
    pub(super) not_plain: Option<At<String>>,
    pub(super) waive: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CommandRuleFile {
    pub(super) id: Option<At<String>>,
    pub(super) pattern: Option<At<String>>,
    pub(super) severity: Option<At<String>>,
    pub(super) reason: Option<At<String>>,
    #[serde(rename = "match")]
    pub(super) must: Option<Vec<At<String>>>,
    #[serde(rename = "not_match")]
    pub(super) must_not: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConstraintsFile {
    pub(super) file_system: Option<At<String>>,
    pub(super) code_execution: Option<At<String>>,
    pub(super) network: Option<At<String>>,
    pub(super) network_allowlist: Option<Vec<At<String>>>,
    pub(super) git: Option<At<String>>,
    pub(super) terminal: Option<At<String>>,
    pub(super) requires_approval: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsFile {
    pub(super) max_concurrency: Option<At<u64>>,
    pub(super) max_input_bytes: Option<At<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolAccessFile {
    pub(super) levels: Option<Entries<LevelFile>>,
}

// The keys of `ConstraintsFile` once more: a flattened struct would forget where its values are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LevelFile {
    pub(super) description: Option<At<String>>,
    pub(super) file_system: Option<At<String>>,
    pub(super) code_execution: Option<At<String>>,
    pub(super) network: Option<At<String>>,
    pub(super) network_allowlist: Option<Vec<At<String>>>,
    pub(super) git: Option<At<String>>,
    pub(super) terminal: Option<At<String>>,
    pub(super) requires_approval: Option<Vec<At<String>>>,
    pub(super) deployment: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxingFile {
    pub(super) default_backend: Option<At<String>>,
    pub(super) overrides: Option<Entries<At<String>>>,
    pub(super) subprocess: Option<SubprocessFile>,
    pub(super) docker: Option<DockerFile>,
    #[serde(alias = "kubernetes")]
    pub(super) k8s: Option<KubernetesFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SubprocessFile {
    pub(super) timeout_seconds: Option<At<u64>>,
    pub(super) memory_limit: Option<At<String>>,
    pub(super) pids_limit: Option<At<u64>>,
    pub(super) cpu_seconds: Option<At<u64>>,
    pub(super) disk_limit: Option<At<String>>,
    pub(super) tmpfs_size: Option<At<String>>,
    pub(super) open_files: Option<At<u64>>,
    pub(super) workspace_only: Option<At<bool>>,
    pub(super) restricted_path: Option<At<bool>>,
    pub(super) visible: Option<Vec<At<String>>>,
    pub(super) extra_safe_path_prefixes: Option<Vec<At<String>>>,
    pub(super) tier: Option<At<String>>,
    pub(super) accepted_gaps: Option<Vec<At<String>>>,
    pub(super) lifecycle: Option<LifecycleFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DockerFile {
    pub(super) image: Option<At<String>>,
    pub(super) warm_rooms: Option<At<u64>>,
    pub(super) network: Option<At<String>>,
    pub(super) network_overrides: Option<Entries<At<String>>>,
    pub(super) allowed_hosts: Option<Vec<At<String>>>,
    pub(super) dns_allowed: Option<At<bool>>,
    pub(super) loopback_allowed: Option<At<bool>>,
    pub(super) memory_limit: Option<At<String>>,
    pub(super) cpu_limit: Option<At<String>>,
    pub(super) timeout_seconds: Option<At<u64>>,
    pub(super) pids_limit: Option<At<u64>>,
    pub(super) tmpfs_size: Option<At<String>>,
    pub(super) sidecar_pids_limit: Option<At<u64>>,
    pub(super) sidecar_tmpfs_size: Option<At<String>>,
    pub(super) mount_mode: Option<At<String>>,
    pub(super) auto_remove: Option<At<bool>>,
    pub(super) runtime: Option<At<String>>,
    pub(super) host: Option<At<String>>,
    pub(super) worker: Option<At<String>>,
    pub(super) lifecycle: Option<LifecycleFile>,
    pub(super) log_shipping: Option<LogShippingFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LogShippingFile {
    pub(super) enabled: Option<At<bool>>,
    pub(super) collection_timeout_seconds: Option<At<u64>>,
    pub(super) max_log_bytes: Option<At<u64>>,
    pub(super) ship_raw_logs: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LifecycleFile {
    pub(super) strategy: Option<At<String>>,
    pub(super) grace_seconds: Option<At<u64>>,
    pub(super) max_idle_seconds: Option<At<u64>>,
    pub(super) max_rooms: Option<At<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KubernetesFile {
    pub(super) namespace: Option<At<String>>,
    pub(super) resource_requests: Option<ResourcesFile>,
    pub(super) resource_limits: Option<ResourcesFile>,
    pub(super) network_policy: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResourcesFile {
    pub(super) cpu: Option<At<String>>,
    pub(super) memory: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TrustFile {
    pub(super) strategy: Option<At<String>>,
    pub(super) initial_level: Option<At<String>>,
    pub(super) weights: Option<WeightsFile>,
    pub(super) promotion_thresholds: Option<Entries<At<WordOr<ThresholdFile>>>>,
    pub(super) initial_levels: Option<Entries<At<String>>>,
    pub(super) promotion_criteria: Option<Entries<Entries<CriterionFile>>>,
    pub(super) milestones: Option<Entries<MilestoneFile>>,
    pub(super) re_verification: Option<ReVerificationFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WeightsFile {
    pub(super) task_difficulty: Option<At<f64>>,
    pub(super) completion_rate: Option<At<f64>>,
    pub(super) error_rate: Option<At<f64>>,
    pub(super) human_feedback: Option<At<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ThresholdFile {
    pub(super) score: Option<At<f64>>,
    pub(super) requires_human_approval: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CriterionFile {
    pub(super) tasks_completed: Option<At<u64>>,
    pub(super) quality_score_min: Option<At<f64>>,
    pub(super) requires_human_approval: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MilestoneFile {
    pub(super) tasks_completed: Option<At<u64>>,
    pub(super) quality_score_min: Option<At<f64>>,
    pub(super) time_active_days: Option<At<u64>>,
    pub(super) clean_history_days: Option<At<u64>>,
    pub(super) requires_human_approval: Option<At<bool>>,
    pub(super) auto_promote: Option<At<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReVerificationFile {
    pub(super) enabled: Option<bool>,
    pub(super) interval_days: Option<At<u64>>,
    pub(super) decay_on_idle_days: Option<At<u64>>,
    pub(super) decay_on_error_rate: Option<At<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AutonomyFile {
    pub(super) default: Option<At<String>>,
    pub(super) presets: Option<Entries<PresetFile>>,
    pub(super) downgrade: Option<DowngradeFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PresetFile {
    pub(super) auto_approve: Option<Vec<At<String>>>,
    pub(super) human_approval: Option<Vec<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DowngradeFile {
    pub(super) error_rate: Option<At<ErrorRateFile>>,
    pub(super) budget_exhausted: Option<At<String>>,
    pub(super) security_incident: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ErrorRateFile {
    pub(super) over: Option<At<f64>>,
    pub(super) of_last: Option<At<u64>>,
    pub(super) to: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ApprovalsFile {
    pub(super) expires: Option<At<String>>,
    pub(super) hold: Option<At<String>>,
    pub(super) people: Option<Vec<At<String>>>,
    pub(super) timeout: Option<At<WordOr<TimeoutFile>>>,
    pub(super) channels: Option<Vec<At<ChannelFile>>>,
    pub(super) at_client: Option<Entries<At<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChannelFile {
    pub(super) webhook: Option<HookFile>,
    pub(super) slack: Option<HookFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HookFile {
    pub(super) url: Option<At<String>>,
    pub(super) secret: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TimeoutFile {
    pub(super) deny_after: Option<At<String>>,
    pub(super) tiered: Option<Entries<At<SilenceFile>>>,
    pub(super) escalation: Option<Vec<At<StepFile>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SilenceFile {
    pub(super) after: Option<At<String>>,
    pub(super) then: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StepFile {
    pub(super) to: Option<Vec<At<String>>>,
    pub(super) after: Option<At<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BudgetFile {
    pub(super) task: Option<SpendFile>,
    pub(super) day: Option<SpendFile>,
    pub(super) ever: Option<SpendFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SpendFile {
    pub(super) calls: Option<At<u64>>,
    pub(super) cost: Option<At<u64>>,
    pub(super) bytes_out: Option<At<String>>,
    pub(super) wall_time: Option<At<String>>,
}
