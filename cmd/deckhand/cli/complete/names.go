package complete

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// most is how many things of a kind are offered.
const most = 100

// about is how many characters of a description are shown.
const about = 60

// rows makes a lister of a call that lists, and of what to show of a row.
func rows[Req, Res, Row any](call func(*sdk.Client, context.Context, *Req) (*Res, error), request *Req, of func(*Res) []Row, show func(Row) value) lister {
	return func(ctx context.Context, client *sdk.Client, _ []string) ([]value, error) {
		res, err := call(client, ctx, request)
		if err != nil {
			return nil, err
		}
		var out []value
		for _, row := range of(res) {
			if v := show(row); v.name != "" {
				v.about = output.Shorten(literal.Line(v.about), about)
				out = append(out, v)
			}
		}
		return out, nil
	}
}

var agents = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListAgentsRequest) (*deckhandv1.ListAgentsResponse, error) {
	return c.Agents.ListAgents(ctx, r)
}, &deckhandv1.ListAgentsRequest{PageSize: most}, (*deckhandv1.ListAgentsResponse).GetAgents, func(x *deckhandv1.Agent) value {
	return value{x.GetName(), x.GetDescription()}
})

// tasks lists the newest tasks in some states; in all without any.
func tasks(states ...deckhandv1.TaskState) lister {
	return rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListTasksRequest) (*deckhandv1.ListTasksResponse, error) {
		return c.Tasks.ListTasks(ctx, r)
	}, &deckhandv1.ListTasksRequest{PageSize: most, States: states}, (*deckhandv1.ListTasksResponse).GetTasks, func(x *deckhandv1.Task) value {
		title := x.GetTitle()
		if title == "" {
			title = x.GetGoal()
		}
		return value{x.GetId(), fmt.Sprintf("%s %s: %s", output.TaskState(x), x.GetAgentName(), title)}
	})
}

// live are the states of a task that has not ended.
func live() (out []deckhandv1.TaskState) {
	for number := range int32(len(deckhandv1.TaskState_name)) {
		if state := deckhandv1.TaskState(number); state != deckhandv1.TaskState_TASK_STATE_UNSPECIFIED && !output.Final(state) {
			out = append(out, state)
		}
	}
	return out
}

var nodes = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListNodesRequest) (*deckhandv1.ListNodesResponse, error) {
	return c.Nodes.ListNodes(ctx, r)
}, &deckhandv1.ListNodesRequest{PageSize: most}, (*deckhandv1.ListNodesResponse).GetNodes, func(x *deckhandv1.Node) value {
	return value{x.GetName(), x.GetStatus()}
})

var workers = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListWorkersRequest) (*deckhandv1.ListWorkersResponse, error) {
	return c.Queue.ListWorkers(ctx, r)
}, &deckhandv1.ListWorkersRequest{PageSize: most}, (*deckhandv1.ListWorkersResponse).GetWorkers, func(x *deckhandv1.Worker) value {
	return value{x.GetName(), fmt.Sprintf("%d of %d slots", x.GetActive(), x.GetSlots())}
})

var triggers = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListTriggersRequest) (*deckhandv1.ListTriggersResponse, error) {
	return c.Triggers.ListTriggers(ctx, r)
}, &deckhandv1.ListTriggersRequest{PageSize: most}, (*deckhandv1.ListTriggersResponse).GetTriggers, func(x *deckhandv1.Trigger) value {
	return value{x.GetName(), output.EnumName(x.GetKind()) + " of " + x.GetAgentName()}
})

var deliveries = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListDeliveriesRequest) (*deckhandv1.ListDeliveriesResponse, error) {
	return c.Triggers.ListDeliveries(ctx, r)
}, &deckhandv1.ListDeliveriesRequest{PageSize: most}, (*deckhandv1.ListDeliveriesResponse).GetDeliveries, func(x *deckhandv1.Delivery) value {
	return value{x.GetId(), output.EnumName(x.GetState()) + " " + x.GetTriggerName() + " " + x.GetEvent()}
})

var destinations = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListDestinationsRequest) (*deckhandv1.ListDestinationsResponse, error) {
	return c.Destinations.ListDestinations(ctx, r)
}, &deckhandv1.ListDestinationsRequest{PageSize: most}, (*deckhandv1.ListDestinationsResponse).GetDestinations, func(x *deckhandv1.Destination) value {
	return value{x.GetName(), x.GetKind()}
})

var notifications = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListNotificationsRequest) (*deckhandv1.ListNotificationsResponse, error) {
	return c.Destinations.ListNotifications(ctx, r)
}, &deckhandv1.ListNotificationsRequest{PageSize: most}, (*deckhandv1.ListNotificationsResponse).GetNotifications, func(x *deckhandv1.Notification) value {
	return value{x.GetId(), x.GetType() + " to " + x.GetDestinationName()}
})

var users = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListUsersRequest) (*deckhandv1.ListUsersResponse, error) {
	return c.Users.ListUsers(ctx, r)
}, &deckhandv1.ListUsersRequest{PageSize: most}, (*deckhandv1.ListUsersResponse).GetUsers, func(x *deckhandv1.User) value {
	return value{x.GetName(), x.GetEffectiveRole()}
})

var teams = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListTeamsRequest) (*deckhandv1.ListTeamsResponse, error) {
	return c.Teams.ListTeams(ctx, r)
}, &deckhandv1.ListTeamsRequest{PageSize: most}, (*deckhandv1.ListTeamsResponse).GetTeams, func(x *deckhandv1.Team) value {
	return value{x.GetName(), x.GetRole()}
})

var tokens = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListTokensRequest) (*deckhandv1.ListTokensResponse, error) {
	return c.Tokens.ListTokens(ctx, r)
}, &deckhandv1.ListTokensRequest{PageSize: most}, (*deckhandv1.ListTokensResponse).GetTokens, func(x *deckhandv1.Token) value {
	return value{x.GetId(), x.GetName()}
})

var providers = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListProvidersRequest) (*deckhandv1.ListProvidersResponse, error) {
	return c.Providers.ListProviders(ctx, r)
}, &deckhandv1.ListProvidersRequest{PageSize: most}, (*deckhandv1.ListProvidersResponse).GetProviders, func(x *deckhandv1.Provider) value {
	return value{x.GetName(), "connected"}
})

// models lists the models that have a price, as PROVIDER/MODEL or, alone, MODEL.
func models(show func(x *deckhandv1.Price) string) lister {
	return rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListPricesRequest) (*deckhandv1.ListPricesResponse, error) {
		return c.Providers.ListPrices(ctx, r)
	}, &deckhandv1.ListPricesRequest{}, (*deckhandv1.ListPricesResponse).GetPrices, func(x *deckhandv1.Price) value {
		return value{show(x), fmt.Sprintf("%s, $%g in, $%g out", x.GetProvider(), x.GetInput(), x.GetOutput())}
	})
}

var credentials = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListCredentialsRequest) (*deckhandv1.ListCredentialsResponse, error) {
	return c.Credentials.ListCredentials(ctx, r)
}, &deckhandv1.ListCredentialsRequest{}, (*deckhandv1.ListCredentialsResponse).GetCredentials, func(x *deckhandv1.Credential) value {
	return value{x.GetName(), x.GetKind() + " " + strings.Join(x.GetHosts(), ", ")}
})

var holds = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListHoldsRequest) (*deckhandv1.ListHoldsResponse, error) {
	return c.Control.ListHolds(ctx, r)
}, &deckhandv1.ListHoldsRequest{}, (*deckhandv1.ListHoldsResponse).GetHolds, func(x *deckhandv1.Hold) value {
	return value{x.GetId(), strings.ToLower(strings.TrimPrefix(x.GetScope().String(), "KILL_SCOPE_")) + " " + x.GetObjectId() + " " + x.GetReason()}
})

// items lists what waits for a person, of some kinds; of all without any.
func items(kinds ...deckhandv1.InboxKind) lister {
	return rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListInboxRequest) (*deckhandv1.ListInboxResponse, error) {
		return c.Inbox.ListInbox(ctx, r)
	}, &deckhandv1.ListInboxRequest{PageSize: most, Kinds: kinds}, (*deckhandv1.ListInboxResponse).GetItems, func(x *deckhandv1.InboxItem) value {
		return value{x.GetId(), output.EnumName(x.GetKind()) + " " + x.GetAgentName() + ": " + x.GetTaskTitle()}
	})
}

var execs = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListNodeExecsRequest) (*deckhandv1.ListNodeExecsResponse, error) {
	return c.NodeExecs.ListNodeExecs(ctx, r)
}, &deckhandv1.ListNodeExecsRequest{PageSize: most}, (*deckhandv1.ListNodeExecsResponse).GetExecs, func(x *deckhandv1.NodeExec) value {
	return value{x.GetId(), x.GetNodeName() + ": " + strings.Join(x.GetArgv(), " ")}
})

var organisations = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListOrganisationsRequest) (*deckhandv1.ListOrganisationsResponse, error) {
	return c.Organisations.ListOrganisations(ctx, r)
}, &deckhandv1.ListOrganisationsRequest{}, (*deckhandv1.ListOrganisationsResponse).GetOrganisations, func(x *deckhandv1.Organisation) value {
	return value{x.GetName(), fmt.Sprintf("%d users", x.GetUsers())}
})

var registries = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListRegistriesRequest) (*deckhandv1.ListRegistriesResponse, error) {
	return c.Images.ListRegistries(ctx, r)
}, &deckhandv1.ListRegistriesRequest{}, (*deckhandv1.ListRegistriesResponse).GetRegistries, func(x *deckhandv1.Registry) value {
	return value{x.GetHost(), x.GetMirror()}
})

var signatureRules = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListSignatureRulesRequest) (*deckhandv1.ListSignatureRulesResponse, error) {
	return c.Images.ListSignatureRules(ctx, r)
}, &deckhandv1.ListSignatureRulesRequest{}, (*deckhandv1.ListSignatureRulesResponse).GetRules, func(x *deckhandv1.SignatureRule) value {
	return value{x.GetPattern(), x.GetSigner()}
})

var accessRules = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListAccessRulesRequest) (*deckhandv1.ListAccessRulesResponse, error) {
	return c.Access.ListAccessRules(ctx, r)
}, &deckhandv1.ListAccessRulesRequest{}, (*deckhandv1.ListAccessRulesResponse).GetRules, func(x *deckhandv1.AccessRule) value {
	return value{x.GetWhat(), strings.Join(x.GetNetworks(), ", ")}
})

var allowRules = rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListAllowRulesRequest) (*deckhandv1.ListAllowRulesResponse, error) {
	return c.Policies.ListAllowRules(ctx, r)
}, &deckhandv1.ListAllowRulesRequest{}, (*deckhandv1.ListAllowRulesResponse).GetRules, func(x *deckhandv1.AllowRule) value {
	return value{x.GetId(), x.GetAgentName() + ": " + x.GetDescription()}
})

// jobs lists the background commands of the task that is the first argument.
func jobs(ctx context.Context, client *sdk.Client, args []string) ([]value, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return rows(func(c *sdk.Client, ctx context.Context, r *deckhandv1.ListJobsRequest) (*deckhandv1.ListJobsResponse, error) {
		return c.Tasks.ListJobs(ctx, r)
	}, &deckhandv1.ListJobsRequest{TaskId: args[0]}, (*deckhandv1.ListJobsResponse).GetJobs, func(x *deckhandv1.Job) value {
		return value{x.GetId(), x.GetCommand()}
	})(ctx, client, args)
}

// killed lists what the first argument, a scope, may be about.
func killed(ctx context.Context, client *sdk.Client, args []string) ([]value, error) {
	if len(args) == 0 {
		return nil, nil
	}
	switch args[0] {
	case "agent":
		return agents(ctx, client, args)
	case "trigger":
		return triggers(ctx, client, args)
	case "node":
		return nodes(ctx, client, args)
	case "task", "lineage":
		return tasks(live()...)(ctx, client, args)
	}
	return nil, nil
}

// budgeted lists what the first argument, a scope, may be about.
func budgeted(ctx context.Context, client *sdk.Client, args []string) ([]value, error) {
	if len(args) > 0 && args[0] == "user" {
		return users(ctx, client, args)
	}
	if len(args) > 0 && (args[0] == "task" || args[0] == "lineage") {
		return tasks()(ctx, client, args)
	}
	return nil, nil
}

// contexts lists the contexts of the user's own file.
func contexts(context.Context, *sdk.Client, []string) ([]value, error) {
	all, err := env.LoadContexts()
	if err != nil {
		return nil, err
	}
	var out []value
	for name, item := range all.Contexts {
		out = append(out, value{name, item.HubURL})
	}
	return out, nil
}
