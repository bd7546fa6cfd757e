package backup

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
	"github.com/deckhand-sh/deckhand/hub/maintenance/restore"
)

func adoptCommand(e *env.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "adopt", Short: "Adopt a database that lacks the last changes, such as a promoted standby",
		Long: `Prepares the hub's database, in its place, after PostgreSQL has lost the last commits: a
standby was promoted that had not received all of them, or the database was restored by
PostgreSQL's own means. Stop all hubs before the standby is promoted, run this once, and
start them again. After a failover to a synchronous standby, which has every commit, it
is not needed.

As after deckhand backup restore, nodes are asked for what they did since, and every task
that had not ended is paused until a person has looked at it. Nothing is executed again
by itself. See https://github.com/deckhand-sh/deckhand/blob/main/docs/backup.md.`,
		Example: "DECKHAND_DATABASE_URL=postgres://... deckhand backup adopt",
		Args:    env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s settings
			if err := s.load(cmd); err != nil {
				return err
			}
			url, err := s.database(cmd)
			if err != nil {
				return err
			}
			done, err := backup.Adopt(cmd.Context(), url)
			if err != nil {
				return err
			}
			if done.Until.Equal(restore.Unknown) {
				e.Notef("The database has no event that tells its time: nodes are asked for everything that they have on record")
			} else {
				e.Notef("The newest event of the database is of %s", done.Until.Format("2006-01-02 15:04:05 MST"))
			}
			noteBegun(e, done.Begun, done.Until)
			return nil
		},
	}
	dataDirFlag(cmd, "the data folder of deckhand up, whose private database is adopted without --database-url")
	cmd.Flags().String("database-url", "", "the hub's database, better in DECKHAND_DATABASE_URL; that of deckhand up by default")
	return cmd
}
