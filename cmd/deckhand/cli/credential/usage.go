package credential

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

var resultNoun = output.Noun[*deckhandv1.TestCredentialResponse]{
	Name: (*deckhandv1.TestCredentialResponse).GetUrl,
	Columns: []output.Column[*deckhandv1.TestCredentialResponse]{
		{Header: "url", Value: (*deckhandv1.TestCredentialResponse).GetUrl, Max: 80},
		{Header: "status", Value: func(x *deckhandv1.TestCredentialResponse) string {
			if x.GetStatus() == 0 {
				return "no response"
			}
			return fmt.Sprint(x.GetStatus())
		}},
		{Header: "response", Value: func(x *deckhandv1.TestCredentialResponse) string { return strings.TrimSpace(x.GetBody()) }, Block: true},
	},
}

func testCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.TestCredentialRequest{}
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Send one request with a credential from the hub, and show the response",
		Long: `The request is a GET, and redirects are not followed. Without --url, a GitHub App and an
OAuth 2.0 client get a token, GitLab is asked who the token's user is, and other servers
are asked for /. Exit code 1 when the server does not accept it.`,
		Example: `deckhand credential test github
deckhand credential test api --url https://api.example.com/v1/me`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Credentials.TestCredential(cmd.Context(), request)
			if err != nil {
				return err
			}
			if err := output.One(e.Printer(), resultNoun, res); err != nil {
				return err
			}
			if res.GetProblem() != "" {
				return env.Failed(env.ExitFailed, fault.New(fault.Precondition, "%s", res.GetProblem()).WithFix("%s", res.GetFix()))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&request.Url, "url", "", "what to ask for; the credential must be for it")
	return cmd
}

func requestNoun(e *env.Env) output.Noun[*deckhandv1.CredentialRequest] {
	return output.Noun[*deckhandv1.CredentialRequest]{
		Name: (*deckhandv1.CredentialRequest).GetId,
		Columns: []output.Column[*deckhandv1.CredentialRequest]{
			{Header: "age", Value: func(x *deckhandv1.CredentialRequest) string { return e.Age(x.GetAt()) }},
			{Header: "credential", Value: (*deckhandv1.CredentialRequest).GetCredential},
			{Header: "method", Value: (*deckhandv1.CredentialRequest).GetMethod},
			{Header: "host", Value: (*deckhandv1.CredentialRequest).GetHost, Max: 50},
			{Header: "path", Value: (*deckhandv1.CredentialRequest).GetPath, Max: 60},
			{Header: "status", Value: func(x *deckhandv1.CredentialRequest) string { return fmt.Sprint(x.GetStatus()) }},
			{Header: "task", Value: (*deckhandv1.CredentialRequest).GetTaskId},
			{Header: "problem", Value: (*deckhandv1.CredentialRequest).GetProblem, Max: 60},
			{Header: "time", Value: func(x *deckhandv1.CredentialRequest) string {
				return output.Duration(time.Duration(x.GetSeconds() * float64(time.Second)))
			}, Wide: true},
			{Header: "sent", Value: func(x *deckhandv1.CredentialRequest) string { return bytesize.Format(x.GetSentBytes()) }, Wide: true},
			{Header: "received", Value: func(x *deckhandv1.CredentialRequest) string { return bytesize.Format(x.GetReceivedBytes()) }, Wide: true},
			{Header: "step", Value: (*deckhandv1.CredentialRequest).GetStepId, Wide: true},
			{Header: "node", Value: (*deckhandv1.CredentialRequest).GetNodeId, Wide: true},
		},
	}
}

func usageCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ListCredentialRequestsRequest{}
	cmd := &cobra.Command{
		Use: "usage [NAME]", Short: "List requests that were sent with credentials",
		Long: "Newest first: those of your tasks, and as an administrator all. They are kept as long as events.",
		Example: `deckhand credential usage github
deckhand credential usage --task task_3q9 -o wide`,
		Args: env.Args("[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				request.Credential = args[0]
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.ListPage(cmd, e, requestNoun(e), client.Credentials.ListCredentialRequests, request, (*deckhandv1.ListCredentialRequestsResponse).GetRequests)
		},
	}
	cmd.Flags().StringVar(&request.TaskId, "task", "", "only of this task")
	cmd.Flags().Int32Var(&request.PageSize, "limit", 50, "at most this many")
	cmd.Flags().StringVar(&request.PageToken, "page-token", "", "continue from this page token")
	return cmd
}
