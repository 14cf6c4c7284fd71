package view

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Backups shows the base backups of a database, the oldest first.
func Backups(out io.Writer, list wire.BackupList) {
	if len(list.Backups) == 0 {
		fmt.Fprintln(out, "There is no base backup yet.")
		return
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tMADE\tSIZE\tSTORED\tTIMELINE\tRESTORES FROM\tUNTIL\tON TRIAL\tNEEDED")
	for _, one := range list.Backups {
		needed := "no"
		if one.Needed != "" {
			needed = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", one.ID, stamp(&one.At), Size(one.Size),
			Size(one.Stored), one.Timeline, stamp(one.FromTime), stamp(one.UntilTime), lastTrial(one), needed)
	}
	_ = table.Flush()
}

// Backup shows everything about one.
func Backup(out io.Writer, list wire.BackupList, one wire.ListedBackup) {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	line("Backup", one.ID)
	line("Folder", list.Folder+"base/"+one.ID+"/")
	line("Made", fmt.Sprintf("%s by %s", stamp(&one.At), cmp.Or(one.Instance, "an instance that is not known")))
	line("For", cmp.Or(one.For, "-"))
	line("Size", fmt.Sprintf("%s, stored as %s in %d parts", Size(one.Size), Size(one.Stored), one.Parts))
	line("Log", fmt.Sprintf("timeline %d, from %s to %s at least", one.Timeline, one.Start, one.Stop))
	restores := "nothing: its log is not whole, or it is of a branch that was left"
	if one.FromTime != nil {
		restores = fmt.Sprintf("%s to %s (%s to %s)", stamp(one.FromTime), stamp(one.UntilTime), one.From, one.Until)
	}
	line("Restores", restores)
	line("Needed", cmp.Or(one.Needed, "no, it can be deleted"))
	for _, trial := range one.Trials {
		line("On trial", fmt.Sprintf("%s: %s, restored within %s", stamp(&trial.At), cmp.Or(trial.Problem, "good"),
			time.Duration(trial.RestoreMilliseconds)*time.Millisecond))
	}
	_ = table.Flush()
}

func lastTrial(one wire.ListedBackup) string {
	if len(one.Trials) == 0 {
		return "-"
	}
	if one.Trials[len(one.Trials)-1].Problem != "" {
		return "bad"
	}
	return "good"
}

func stamp(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}
