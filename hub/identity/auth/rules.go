package auth

import (
	"slices"

	"github.com/deckhand-sh/deckhand/internal/fault"
	e "github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
	c "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// Rule defines who may call a procedure.
type Rule struct {
	// Public procedures authenticate in their own way.
	Public bool
	Kind   Kind
	// Role is the least role of a user.
	Role string
	// Operator restricts the procedure to Operators.
	Operator bool
}

// Operators is the first organisation, whose administrators look after the hub. It
// is known beforehand, since a NATS server's configuration names it.
const Operators = "org_default"

// Admin is the role of administrators.
const Admin = "admin"

// roles, least first.
var roles = []string{"viewer", "basic", "advanced", Admin}

// AtLeast reports whether a role has all the rights of another. A role that there
// is not has none.
func AtLeast(role, least string) bool {
	return slices.Contains(roles, role) && slices.Index(roles, role) >= slices.Index(roles, least)
}

// rules is the whole table.
var rules = map[string]Rule{
	c.AgentServiceApplyAgentProcedure: {Kind: User, Role: "advanced"},
	c.AgentServiceGetAgentProcedure:   {Kind: User, Role: "viewer"},
	c.AgentServiceListAgentsProcedure: {Kind: User, Role: "viewer"},
	// Names and figures only, as the list of agents.
	c.AgentServiceGetAgentGraphProcedure:      {Kind: User, Role: "viewer"},
	c.AgentServiceListAgentSummariesProcedure: {Kind: User, Role: "viewer"},

	// Of those who see the agent.
	c.AgentServiceListAgentVersionsProcedure: {Kind: User, Role: "viewer"},
	c.AgentServiceDiffAgentVersionsProcedure: {Kind: User, Role: "viewer"},
	c.AgentServiceDuplicateAgentProcedure:    {Kind: User, Role: "advanced"},
	// One's own agents, or any as an administrator: hub/work/agent checks.
	c.AgentServiceDisableAgentProcedure:        {Kind: User, Role: "advanced"},
	c.AgentServiceEnableAgentProcedure:         {Kind: User, Role: "advanced"},
	c.AgentServiceDeleteAgentProcedure:         {Kind: User, Role: "advanced"},
	c.AgentServiceUndeleteAgentProcedure:       {Kind: User, Role: "advanced"},
	c.AgentServiceRenameAgentProcedure:         {Kind: User, Role: "advanced"},
	c.AgentServiceTransferAgentProcedure:       {Kind: User, Role: "advanced"},
	c.AgentServiceRestoreAgentVersionProcedure: {Kind: User, Role: "advanced"},

	// Of what the caller sees; one's own patterns, or any as an administrator: hub/learn/pattern
	// checks.
	c.PatternServiceListPatternsProcedure:       {Kind: User, Role: "viewer"},
	c.PatternServiceGetPatternProcedure:         {Kind: User, Role: "viewer"},
	c.PatternServiceMatchPatternsProcedure:      {Kind: User, Role: "viewer"},
	c.PatternServiceGetPatternReportProcedure:   {Kind: User, Role: "viewer"},
	c.PatternServiceUpdatePatternProcedure:      {Kind: User, Role: "basic"},
	c.PatternServiceSharePatternProcedure:       {Kind: User, Role: "basic"},
	c.PatternServiceDisablePatternProcedure:     {Kind: User, Role: "basic"},
	c.PatternServiceEnablePatternProcedure:      {Kind: User, Role: "basic"},
	c.PatternServiceDeletePatternProcedure:      {Kind: User, Role: "basic"},
	c.PatternServiceUndeletePatternProcedure:    {Kind: User, Role: "basic"},
	c.PatternServicePurgePatternsProcedure:      {Kind: User, Role: "viewer"},
	c.PatternServiceSetPatternSettingsProcedure: {Kind: User, Role: Admin},
	c.FeedbackServiceGiveFeedbackProcedure:      {Kind: User, Role: "basic"},
	c.FeedbackServiceListFeedbackProcedure:      {Kind: User, Role: "viewer"},
	c.FeedbackServiceListProposalsProcedure:     {Kind: User, Role: "viewer"},
	c.FeedbackServiceDecideProposalProcedure:    {Kind: User, Role: "basic"},
	c.InsightServiceExplainTaskProcedure:        {Kind: User, Role: "viewer"},
	c.InsightServiceGetRecommendationProcedure:  {Kind: User, Role: "viewer"},
	c.InsightServiceGetInsightsProcedure:        {Kind: User, Role: "viewer"},

	c.TaskServiceSubmitTaskProcedure:  {Kind: User, Role: "basic"},
	c.TaskServiceGetTaskProcedure:     {Kind: User, Role: "viewer"},
	c.TaskServiceListTasksProcedure:   {Kind: User, Role: "viewer"},
	c.TaskServiceCancelTaskProcedure:  {Kind: User, Role: "basic"},
	c.TaskServiceListStepsProcedure:   {Kind: User, Role: "viewer"},
	c.TaskServiceCancelTasksProcedure: {Kind: User, Role: "basic"},
	c.TaskServiceReadLogProcedure:     {Kind: User, Role: "viewer"},
	c.TaskServiceReadTaskLogProcedure: {Kind: User, Role: "viewer"},
	// Of one's own tasks, or any as an administrator, it can be taken over: the handler checks.
	c.BrowserServiceWatchBrowserProcedure:         {Kind: User, Role: "viewer"},
	c.BrowserServiceReadBrowserRecordingProcedure: {Kind: User, Role: "viewer"},
	c.QueueServiceReorderTaskProcedure:            {Kind: User, Role: "advanced"},
	c.QueueServiceAssignTaskProcedure:             {Kind: User, Role: "basic"},
	c.QueueServiceCompleteTaskProcedure:           {Kind: User, Role: "basic"},
	c.QueueServiceListWorkersProcedure:            {Kind: User, Role: "viewer"},
	c.QueueServiceDrainWorkerProcedure:            {Kind: User, Role: Admin},
	c.QueueServiceUndrainWorkerProcedure:          {Kind: User, Role: Admin},
	// One's own tasks, or any as an administrator: the handler checks.
	c.TaskServicePauseTaskProcedure:        {Kind: User, Role: "basic"},
	c.TaskServiceResumeTaskProcedure:       {Kind: User, Role: "basic"},
	c.TaskServiceTellTaskProcedure:         {Kind: User, Role: "basic"},
	c.TaskServiceWithdrawMessageProcedure:  {Kind: User, Role: "basic"},
	c.TaskServiceRetryTaskProcedure:        {Kind: User, Role: "basic"},
	c.TaskServiceResumeTaskFromProcedure:   {Kind: User, Role: "basic"},
	c.TaskServiceKeepCheckpointProcedure:   {Kind: User, Role: "basic"},
	c.TaskServiceListCheckpointsProcedure:  {Kind: User, Role: "viewer"},
	c.TaskServiceListJobsProcedure:         {Kind: User, Role: "viewer"},
	c.TaskServiceKillJobProcedure:          {Kind: User, Role: "basic"},
	c.TaskPlanServiceGetTaskPlanProcedure:  {Kind: User, Role: "viewer"},
	c.TaskPlanServiceEditTaskPlanProcedure: {Kind: User, Role: "basic"},
	c.AgentServiceTellAgentProcedure:       {Kind: User, Role: "basic"},
	c.AgentServicePauseAgentProcedure:      {Kind: User, Role: "advanced"},
	c.AgentServiceResumeAgentProcedure:     {Kind: User, Role: "advanced"},
	// More than one's own task is an administrator's to kill: the handler checks.
	c.ControlServiceKillProcedure:           {Kind: User, Role: "basic"},
	c.ControlServiceListHoldsProcedure:      {Kind: User, Role: "viewer"},
	c.ControlServiceReleaseHoldProcedure:    {Kind: User, Role: Admin},
	c.AuditServiceListAuditEntriesProcedure: {Kind: User, Role: Admin},
	c.AuditServiceExportAuditProcedure:      {Kind: User, Role: Admin},
	c.AuditServiceVerifyAuditProcedure:      {Kind: User, Role: Admin},
	c.AuditServiceGetReceiptProcedure:       {Kind: User, Role: "viewer"},

	// One's own tasks, or any as an administrator: the handlers check.
	c.HistoryServiceExportTaskProcedure:    {Kind: User, Role: "viewer"},
	c.HistoryServiceGetEstimateProcedure:   {Kind: User, Role: "viewer"},
	c.HistoryServiceGetStatisticsProcedure: {Kind: User, Role: "viewer"},
	c.HistoryServiceSearchHistoryProcedure: {Kind: User, Role: "viewer"},

	c.FileServiceReadFileProcedure:     {Kind: User, Role: "viewer"},
	c.FileServiceListFilesProcedure:    {Kind: User, Role: "viewer"},
	c.EventServiceWatchProcedure:       {Kind: User, Role: "viewer"},
	c.EventServiceListEventsProcedure:  {Kind: User, Role: "viewer"},
	c.EventServiceListMomentsProcedure: {Kind: User, Role: "viewer"},

	// Of those who see or write in the scope: hub/learn/memory checks.
	c.MemoryServiceSetMemoryProcedure:          {Kind: User, Role: "basic"},
	c.MemoryServiceGetMemoryProcedure:          {Kind: User, Role: "viewer"},
	c.MemoryServiceListMemoriesProcedure:       {Kind: User, Role: "viewer"},
	c.MemoryServiceRecallMemoriesProcedure:     {Kind: User, Role: "viewer"},
	c.MemoryServiceListMemoryVersionsProcedure: {Kind: User, Role: "viewer"},
	c.MemoryServiceDeleteMemoriesProcedure:     {Kind: User, Role: "viewer"},
	c.MemoryServiceRestoreMemoriesProcedure:    {Kind: User, Role: "basic"},
	c.MemoryServiceConfirmMemoriesProcedure:    {Kind: User, Role: "basic"},
	c.MemoryServiceImportMemoriesProcedure:     {Kind: User, Role: "basic"},
	c.MemoryServicePurgeMemoriesProcedure:      {Kind: User, Role: "viewer"},
	c.MemoryServiceListTaskMemoriesProcedure:   {Kind: User, Role: "viewer"},

	// Who may answer depends on the item, too: hub/inbox checks that.
	c.InboxServiceListInboxProcedure:           {Kind: User, Role: "viewer"},
	c.InboxServiceGetInboxItemProcedure:        {Kind: User, Role: "viewer"},
	c.InboxServiceReadInboxArgumentProcedure:   {Kind: User, Role: "viewer"},
	c.InboxServiceJudgeInboxItemProcedure:      {Kind: User, Role: "basic"},
	c.InboxServiceAnswerInboxItemProcedure:     {Kind: User, Role: "basic"},
	c.InboxServiceSnoozeInboxItemProcedure:     {Kind: User, Role: "viewer"},
	c.InboxServiceReplyToTaskProcedure:         {Kind: User, Role: "basic"},
	c.InboxServiceReadInboxAttachmentProcedure: {Kind: User, Role: "basic"},

	c.PolicyServiceGetPolicyProcedure:      {Kind: User, Role: "viewer"},
	c.PolicyServiceApplyPolicyProcedure:    {Kind: User, Role: Admin},
	c.PolicyServiceTestPolicyProcedure:     {Kind: User, Role: "viewer"},
	c.PolicyServiceListAllowRulesProcedure: {Kind: User, Role: "viewer"},
	// The response contains other users' calls.
	c.PolicyServiceReplayPolicyProcedure: {Kind: User, Role: Admin},
	// One's own rules, or any as an administrator: hub/policy checks.
	c.PolicyServiceRevokeAllowRuleProcedure: {Kind: User, Role: "basic"},

	c.ToolServiceListToolsProcedure: {Kind: User, Role: "viewer"},
	c.ToolServiceGetToolProcedure:   {Kind: User, Role: "viewer"},

	c.FileServiceCompareFilesProcedure:         {Kind: User, Role: "advanced"},
	c.FileServiceUploadFilesProcedure:          {Kind: User, Role: "advanced"},
	c.FileServiceWriteFileProcedure:            {Kind: User, Role: "advanced"},
	c.FileServiceDescribeFilesProcedure:        {Kind: User, Role: "advanced"},
	c.FileServiceDownloadFilesProcedure:        {Kind: User, Role: "advanced"},
	c.FileServiceSendFilesProcedure:            {Kind: User, Role: "advanced"},
	c.WorkspaceServiceListArtifactsProcedure:   {Kind: User, Role: "viewer"},
	c.FileServiceWatchFilesProcedure:           {Kind: User, Role: "viewer"},
	c.WorkspaceServiceListChangesProcedure:     {Kind: User, Role: "viewer"},
	c.WorkspaceServiceDiffChangesProcedure:     {Kind: User, Role: "viewer"},
	c.WorkspaceServiceUndoChangesProcedure:     {Kind: User, Role: "basic"},
	c.WorkspaceServiceUndoNodeExecProcedure:    {Kind: User, Role: "advanced"},
	c.WorkspaceServiceExportWorkspaceProcedure: {Kind: User, Role: "advanced"},

	c.ProviderServiceConnectProviderProcedure:      {Kind: User, Role: Admin},
	c.ProviderServiceListProvidersProcedure:        {Kind: User, Role: "viewer"},
	c.ProviderServiceDisconnectProviderProcedure:   {Kind: User, Role: Admin},
	c.ProviderServiceGetProviderUsageProcedure:     {Kind: User, Role: "viewer"},
	c.ProviderServiceGetProviderCatalogueProcedure: {Kind: User, Role: "viewer"},
	c.ProviderServiceListPricesProcedure:           {Kind: User, Role: "viewer"},
	c.ProviderServiceSetPriceProcedure:             {Kind: User, Role: Admin},
	c.BudgetServiceListBudgetsProcedure:            {Kind: User, Role: "viewer"},
	c.BudgetServiceGetBudgetProcedure:              {Kind: User, Role: "viewer"},
	// Of one's own tasks; an administrator sees all.
	c.BudgetServiceGetUsageReportProcedure: {Kind: User, Role: "viewer"},
	c.BudgetServiceSetBudgetProcedure:      {Kind: User, Role: Admin},

	c.PlanServiceGetPlanProcedure:          {Kind: User, Role: "viewer"},
	c.PlanServiceSetQuotaProcedure:         {Kind: User, Role: Admin},
	c.PlanServiceGetQuotaHistoryProcedure:  {Kind: User, Role: "viewer"},
	c.PlanServiceSetPlanProcedure:          {Kind: User, Role: Admin},
	c.PlanServiceSetAllowedModelsProcedure: {Kind: User, Role: Admin},
	c.PlanServiceSetCallRateProcedure:      {Kind: User, Role: Admin},

	c.TriggerServiceCreateTriggerProcedure:       {Kind: User, Role: "advanced"},
	c.TriggerServiceUpdateTriggerProcedure:       {Kind: User, Role: "advanced"},
	c.TriggerServiceGetTriggerProcedure:          {Kind: User, Role: "viewer"},
	c.TriggerServiceListTriggersProcedure:        {Kind: User, Role: "viewer"},
	c.TriggerServiceEnableTriggerProcedure:       {Kind: User, Role: "advanced"},
	c.TriggerServiceDisableTriggerProcedure:      {Kind: User, Role: "advanced"},
	c.TriggerServiceDeleteTriggerProcedure:       {Kind: User, Role: "advanced"},
	c.TriggerServiceRotateTriggerSecretProcedure: {Kind: User, Role: "advanced"},
	c.TriggerServiceFireTriggerProcedure:         {Kind: User, Role: "advanced"},
	c.TriggerServiceTestTriggerProcedure:         {Kind: User, Role: "advanced"},
	c.TriggerServiceListDeliveriesProcedure:      {Kind: User, Role: "viewer"},
	c.TriggerServiceGetDeliveryProcedure:         {Kind: User, Role: "advanced"},
	c.TriggerServiceReplayDeliveryProcedure:      {Kind: User, Role: "advanced"},

	// Destinations send data about everyone's tasks out of the installation: an
	// administrator decides where. A URL may be a secret.
	c.DestinationServiceCreateDestinationProcedure:       {Kind: User, Role: Admin},
	c.DestinationServiceUpdateDestinationProcedure:       {Kind: User, Role: Admin},
	c.DestinationServiceGetDestinationProcedure:          {Kind: User, Role: Admin},
	c.DestinationServiceListDestinationsProcedure:        {Kind: User, Role: Admin},
	c.DestinationServiceTestDestinationProcedure:         {Kind: User, Role: Admin},
	c.DestinationServiceEnableDestinationProcedure:       {Kind: User, Role: Admin},
	c.DestinationServiceDisableDestinationProcedure:      {Kind: User, Role: Admin},
	c.DestinationServiceRotateDestinationSecretProcedure: {Kind: User, Role: Admin},
	c.DestinationServiceDeleteDestinationProcedure:       {Kind: User, Role: Admin},
	c.DestinationServiceListNotificationsProcedure:       {Kind: User, Role: Admin},
	c.DestinationServiceGetNotificationProcedure:         {Kind: User, Role: Admin},
	c.DestinationServiceRedriveNotificationsProcedure:    {Kind: User, Role: Admin},

	c.NodeServiceListNodesProcedure:       {Kind: User, Role: "viewer"},
	c.NodeServiceGetNodeProcedure:         {Kind: User, Role: "viewer"},
	c.NodeServiceCreateJoinTokenProcedure: {Kind: User, Role: Admin},
	c.NodeServiceRevokeNodeProcedure:      {Kind: User, Role: Admin},
	c.NodeServiceDrainNodeProcedure:       {Kind: User, Role: Admin},
	c.NodeServiceUndrainNodeProcedure:     {Kind: User, Role: Admin},
	c.NodeServiceLockNodeProcedure:        {Kind: User, Role: Admin},
	c.NodeServiceUnlockNodeProcedure:      {Kind: User, Role: Admin},
	c.NodeServiceListNodeLocksProcedure:   {Kind: User, Role: "viewer"},

	c.NodeServiceUpgradeNodesProcedure:     {Kind: User, Role: Admin},
	c.NodeServiceListNodeRolloutsProcedure: {Kind: User, Role: Admin},
	c.NodeServiceStopNodeRolloutProcedure:  {Kind: User, Role: Admin},

	// What the node's operator shows of the machine.
	c.MachineServiceGetMachineProcedure:       {Kind: User, Role: Admin},
	c.MachineServiceReadJournalProcedure:      {Kind: User, Role: Admin},
	c.MachineServiceListMachineFilesProcedure: {Kind: User, Role: Admin},
	c.MachineServiceReadMachineFileProcedure:  {Kind: User, Role: Admin},

	c.ImageServiceListImagesProcedure:          {Kind: User, Role: "viewer"},
	c.PackServiceListPacksProcedure:            {Kind: User, Role: "viewer"},
	c.PackServiceFetchPackProcedure:            {Kind: User, Role: Admin},
	c.PackServiceImportPackProcedure:           {Kind: User, Role: Admin},
	c.PackServicePrunePacksProcedure:           {Kind: User, Role: Admin},
	c.ImageServicePullImageProcedure:           {Kind: User, Role: Admin},
	c.ImageServicePrepareImageProcedure:        {Kind: User, Role: "advanced"},
	c.ImageServiceImportImageProcedure:         {Kind: User, Role: Admin},
	c.ImageServicePruneImagesProcedure:         {Kind: User, Role: Admin},
	c.ImageServiceSetRegistryProcedure:         {Kind: User, Role: Admin},
	c.ImageServiceListRegistriesProcedure:      {Kind: User, Role: Admin},
	c.ImageServiceDeleteRegistryProcedure:      {Kind: User, Role: Admin},
	c.ImageServiceGetImageRulesProcedure:       {Kind: User, Role: "viewer"},
	c.ImageServiceSetImageRulesProcedure:       {Kind: User, Role: Admin},
	c.ImageServiceSetSignatureRuleProcedure:    {Kind: User, Role: Admin},
	c.ImageServiceListSignatureRulesProcedure:  {Kind: User, Role: "viewer"},
	c.ImageServiceDeleteSignatureRuleProcedure: {Kind: User, Role: Admin},

	c.CredentialServiceCreateCredentialProcedure: {Kind: User, Role: Admin},
	c.CredentialServiceListCredentialsProcedure:  {Kind: User, Role: "viewer"},
	c.CredentialServiceGetCredentialProcedure:    {Kind: User, Role: "viewer"},
	c.CredentialServiceUpdateCredentialProcedure: {Kind: User, Role: Admin},
	c.CredentialServiceRotateCredentialProcedure: {Kind: User, Role: Admin},
	c.CredentialServiceDeleteCredentialProcedure: {Kind: User, Role: Admin},
	c.CredentialServiceTestCredentialProcedure:   {Kind: User, Role: Admin},
	// Of one's own tasks; an administrator sees all.
	c.CredentialServiceListCredentialRequestsProcedure: {Kind: User, Role: "viewer"},

	c.NodeTelemetryServiceWatchNodeTelemetryProcedure: {Kind: User, Role: "viewer"},
	c.NodeTelemetryServiceGetAgentTelemetryProcedure:  {Kind: User, Role: "viewer"},

	// On the machine itself these need an administrator, which the handler
	// checks: it depends on the request.
	c.NodeExecServiceStartNodeExecProcedure: {Kind: User, Role: "advanced"},
	c.NodeExecServiceKillNodeExecProcedure:  {Kind: User, Role: "advanced"},
	c.TerminalServiceOpenTerminalProcedure:  {Kind: User, Role: "advanced"},
	c.NodeExecServiceGetNodeExecProcedure:   {Kind: User, Role: "viewer"},
	c.NodeExecServiceListNodeExecsProcedure: {Kind: User, Role: "viewer"},
	c.NodeExecServiceReadNodeLogProcedure:   {Kind: User, Role: "viewer"},
	c.NodeExecServiceSearchNodeLogProcedure: {Kind: User, Role: "viewer"},
	c.NodeExecServiceIndexNodeLogProcedure:  {Kind: User, Role: "viewer"},

	c.UserServiceListUsersProcedure:  {Kind: User, Role: "viewer"},
	c.UserServiceGetUserProcedure:    {Kind: User, Role: "viewer"},
	c.UserServiceCreateUserProcedure: {Kind: User, Role: Admin},
	c.UserServiceUpdateUserProcedure: {Kind: User, Role: Admin},
	// Of those who see the collection, or change it: hub/learn/knowledge checks.
	c.KnowledgeServiceCreateCollectionProcedure:      {Kind: User, Role: "basic"},
	c.KnowledgeServiceListCollectionsProcedure:       {Kind: User, Role: "viewer"},
	c.KnowledgeServiceGetCollectionProcedure:         {Kind: User, Role: "viewer"},
	c.KnowledgeServiceDeleteCollectionProcedure:      {Kind: User, Role: "basic"},
	c.KnowledgeServiceAddSourceProcedure:             {Kind: User, Role: "basic"},
	c.KnowledgeServiceRemoveSourceProcedure:          {Kind: User, Role: "basic"},
	c.KnowledgeServiceUploadDocumentProcedure:        {Kind: User, Role: "basic"},
	c.KnowledgeServiceRemoveDocumentProcedure:        {Kind: User, Role: "basic"},
	c.KnowledgeServiceListDocumentsProcedure:         {Kind: User, Role: "viewer"},
	c.KnowledgeServiceSyncCollectionProcedure:        {Kind: User, Role: "basic"},
	c.KnowledgeServiceSearchKnowledgeProcedure:       {Kind: User, Role: "viewer"},
	c.KnowledgeServiceGetPassageProcedure:            {Kind: User, Role: "viewer"},
	c.KnowledgeServiceGetKnowledgeEmbeddingProcedure: {Kind: User, Role: "viewer"},
	c.KnowledgeServiceSetKnowledgeEmbeddingProcedure: {Kind: User, Role: Admin},

	c.TeamServiceListTeamsProcedure:                     {Kind: User, Role: "viewer"},
	c.TeamServiceCreateTeamProcedure:                    {Kind: User, Role: Admin},
	c.TeamServiceUpdateTeamProcedure:                    {Kind: User, Role: Admin},
	c.TeamServiceDeleteTeamProcedure:                    {Kind: User, Role: Admin},
	c.TeamServiceAddTeamMemberProcedure:                 {Kind: User, Role: Admin},
	c.TeamServiceRemoveTeamMemberProcedure:              {Kind: User, Role: Admin},
	c.AccessServiceListAccessRulesProcedure:             {Kind: User, Role: Admin},
	c.AccessServiceSetAccessRuleProcedure:               {Kind: User, Role: Admin},
	c.AccessServiceDeleteAccessRuleProcedure:            {Kind: User, Role: Admin},
	c.DiagnosticsServiceDiagnoseProcedure:               {Kind: User, Role: Admin},
	c.RetentionServiceGetRetentionProcedure:             {Kind: User, Role: Admin},
	c.RetentionServiceSetRetentionProcedure:             {Kind: User, Role: Admin},
	c.RetentionServiceSetLegalHoldProcedure:             {Kind: User, Role: Admin},
	c.RetentionServiceListLegalHoldsProcedure:           {Kind: User, Role: Admin},
	c.VaultServiceGetVaultProcedure:                     {Kind: User, Role: Admin, Operator: true},
	c.VaultServiceRotateVaultProcedure:                  {Kind: User, Role: Admin, Operator: true},
	c.OrganisationServiceCreateOrganisationProcedure:    {Kind: User, Role: Admin, Operator: true},
	c.OrganisationServiceListOrganisationsProcedure:     {Kind: User, Role: Admin, Operator: true},
	c.OrganisationServiceSetOrganisationLimitsProcedure: {Kind: User, Role: Admin, Operator: true},
	c.OrganisationServiceGetTaskSharingProcedure:        {Kind: User, Role: "viewer"},
	c.OrganisationServiceSetTaskSharingProcedure:        {Kind: User, Role: Admin},
	// One's own, or anybody's as an administrator: the handlers check.
	c.UserServiceSetPasswordProcedure:  {Kind: User, Role: "viewer"},
	c.TokenServiceCreateTokenProcedure: {Kind: User, Role: "viewer"},
	c.TokenServiceListTokensProcedure:  {Kind: User, Role: "viewer"},
	c.TokenServiceRevokeTokenProcedure: {Kind: User, Role: "viewer"},
	// Of the organisation's people together.
	c.TokenServiceGetTokenLimitsProcedure: {Kind: User, Role: "viewer"},
	c.TokenServiceSetTokenLimitsProcedure: {Kind: User, Role: Admin},

	// The token, the password or the code is the proof.
	c.SessionServiceCreateSessionProcedure:     {Public: true},
	c.SessionServiceGetLoginMethodsProcedure:   {Public: true},
	c.SessionServiceBeginPasskeyLoginProcedure: {Public: true},
	// One's own; an administrator's token removes those of others, too.
	c.PasskeyServiceBeginPasskeyRegistrationProcedure: {Kind: User, Role: "viewer"},
	c.PushServiceGetPushKeyProcedure:                  {Kind: User, Role: "viewer"},
	c.PushServiceCreatePushDeviceProcedure:            {Kind: User, Role: "viewer"},
	c.PushServiceListPushDevicesProcedure:             {Kind: User, Role: "viewer"},
	c.PushServiceUpdatePushDeviceProcedure:            {Kind: User, Role: "viewer"},
	c.PushServiceDeletePushDeviceProcedure:            {Kind: User, Role: "viewer"},
	c.PushServiceTestPushDeviceProcedure:              {Kind: User, Role: "viewer"},
	c.PasskeyServiceCreatePasskeyProcedure:            {Kind: User, Role: "viewer"},
	c.PasskeyServiceListPasskeysProcedure:             {Kind: User, Role: "viewer"},
	c.PasskeyServiceRenamePasskeyProcedure:            {Kind: User, Role: "viewer"},
	c.PasskeyServiceDeletePasskeyProcedure:            {Kind: User, Role: "viewer"},
	c.PasskeyServiceBeginPasskeyProofProcedure:        {Kind: User, Role: "viewer"},
	c.PasskeyServiceGetPasskeyRulesProcedure:          {Kind: User, Role: "viewer"},
	c.PasskeyServiceSetPasskeyRulesProcedure:          {Kind: User, Role: Admin},
	c.SessionServiceGetSessionProcedure:               {Kind: User, Role: "viewer"},
	c.SessionServiceListSessionsProcedure:             {Kind: User, Role: "viewer"},
	c.SessionServiceDeleteSessionProcedure:            {Kind: User, Role: "viewer"},
	c.SessionServiceCreateLoginCodeProcedure:          {Kind: User, Role: "viewer"},

	// The join token, or the node's key, is the proof.
	e.EnrollmentServiceEnrollNodeProcedure:       {Public: true},
	e.EnrollmentServiceRenewCertificateProcedure: {Public: true},

	c.WorkerServiceRegisterWorkerProcedure:  {Kind: Worker},
	c.WorkerServiceClaimTaskProcedure:       {Kind: Worker},
	c.WorkerServiceRenewLeasesProcedure:     {Kind: Worker},
	c.WorkerServiceStartTaskProcedure:       {Kind: Worker},
	c.WorkerServiceRecordEventsProcedure:    {Kind: Worker},
	c.WorkerServicePublishThinkingProcedure: {Kind: Worker},
	c.WorkerServiceRecordTurnProcedure:      {Kind: Worker},
	c.WorkerServiceProposeStepProcedure:     {Kind: Worker},
	c.WorkerServiceExecuteStepProcedure:     {Kind: Worker},
	c.WorkerServiceSaveCheckpointProcedure:  {Kind: Worker},
	c.WorkerServiceFinishTaskProcedure:      {Kind: Worker},
	c.WorkerServiceYieldTaskProcedure:       {Kind: Worker},
	c.WorkerServiceReleaseTaskProcedure:     {Kind: Worker},
}

// RuleOf returns a procedure's rule.
func RuleOf(procedure string) (Rule, bool) {
	r, ok := rules[procedure]
	return r, ok
}

// Allow refuses a caller that the procedure's rule does not admit.
func Allow(id Identity, procedure string, rule Rule) error {
	if id.Kind == Program {
		return allowProgram(id, procedure)
	}
	if id.Kind != rule.Kind {
		return fault.New(fault.Denied, "a %s token may not call %s", id.Kind, procedure).
			WithCode(fault.PermissionDenied).WithFix("use a %s token", rule.Kind)
	}
	if err := id.Scope.allow(procedure); err != nil {
		return err
	}
	if rule.Kind == User && !AtLeast(id.Role, rule.Role) {
		return fault.New(fault.Denied, "%s needs the role %s, and you have %s", procedure, rule.Role, id.Role).
			WithCode(fault.PermissionDenied).WithFix("ask an administrator")
	}
	if rule.Operator && id.OrgID != Operators {
		return fault.New(fault.Denied, "%s is for the hub's operators, the administrators of its first organisation", procedure).
			WithCode(fault.PermissionDenied).WithFix("ask one of them")
	}
	return nil
}
