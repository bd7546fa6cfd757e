package env

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Day returns the beginning, in UTC, of the day that a flag names; nil for "".
func Day(cmd *cobra.Command, flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return nil, Usage(cmd, "%s is %q, give a day such as 2026-01-31", flag, text)
	}
	return timestamppb.New(at), nil
}

// Duration returns the value of a duration flag; nil if the flag was not given.
func Duration(cmd *cobra.Command, flag string) (*durationpb.Duration, error) {
	if !cmd.Flags().Changed(flag) {
		return nil, nil
	}
	d, err := cmd.Flags().GetDuration(flag)
	return durationpb.New(d), err
}
