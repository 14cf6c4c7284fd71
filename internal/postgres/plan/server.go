package plan

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

func closeTheDataDirectory(s postgres.Snapshot, plan *draft) bool {
	if !s.Data.Private {
		plan.do(postgres.TightenMode{Why: "others may enter the data directory, and PostgreSQL would refuse to start"})
	}
	return false
}

// installTheCertificate keeps the copy that is there when the mounted one cannot be used: a server with an old
// certificate is better than none.
func installTheCertificate(s postgres.Snapshot, plan *draft) bool {
	certificate := s.Certificate
	switch {
	case certificate.Mounted == "":
		plan.hold(wire.ReasonCertificateMissing, "the mounted certificate cannot be used: %s", certificate.Problem)
		return certificate.Installed == ""
	case certificate.Mounted != certificate.Installed:
		plan.do(postgres.InstallCertificate{
			Why: "the mounted certificate is not the one that PostgreSQL reads", Identity: certificate.Mounted,
		})
	}
	return false
}

// recordNewSettings comes before the files are written, so that an agent that finds the mounted settings spoilt knows
// what the files should hold.
func recordNewSettings(s postgres.Snapshot, plan *draft) bool {
	mounted, record := s.Settings.Mounted, s.Volume.Record
	if mounted == nil || record.Settings != nil && record.Settings.Hash() == mounted.Hash() {
		return false
	}
	plan.do(postgres.RecordSettings{
		Why: "these settings are about to be put in force", Settings: *mounted, Kept: inForce(*record), Spare: complete(s),
	})
	return false
}

// files renders what should be on disk with the certificate that will be installed by then, and without parameters that
// PostgreSQL has refused.
func files(s postgres.Snapshot) ([]postgres.Content, string) {
	settings, _ := wanted(s)
	in := render.Input{
		Settings: settings, Instance: s.Instance, User: s.Programs.User, Runtime: s.Runtime, Refused: refusedBefore(s),
		Kept: keptInstead(s), Listen: s.Listen, Port: s.Port, Open: open(s), Libraries: s.Programs.Libraries,
	}
	if leads(s) {
		in.Quorum, in.Timeline = &s.Standing.Setting, s.Standing.Timeline
		in.Full = s.Volume.Room.Full(s.Server.Full)
	}
	if asReplica(s) {
		in.Raised = postgres.Raised(s.Data.Floors, settings.Parameters)
	}
	if in.Certificate = s.Certificate.Mounted; in.Certificate == "" {
		in.Certificate = s.Certificate.Installed
	}
	return render.Files(in)
}

// asReplica says that the server is a replica, or would start as one, also if only to be promoted.
func asReplica(s postgres.Snapshot) bool {
	if s.Process.Running {
		return !s.Primary()
	}
	return s.Standing.Role != tenure.RoleLead || s.Data.Timeline != s.Standing.Timeline
}

// complete tells whether a server could be started with the files that are on the disk: an agent wrote each of them.
// The last one is written only after all others were.
func complete(s postgres.Snapshot) bool {
	ours := 0
	for _, file := range s.Files {
		if file.Ours && slices.Contains(render.Names(), file.Name) {
			ours++
		}
	}
	return ours == len(render.Names())
}

func writeFiles(s postgres.Snapshot, plan *draft) bool {
	onDisk := map[string]string{}
	for _, file := range s.Files {
		onDisk[file.Name] = file.Hash
	}
	var stale []postgres.Content
	contents, _ := plan.files(s)
	for _, file := range contents {
		if onDisk[file.Name] != render.Hash(file.Text) {
			stale = append(stale, file)
		}
	}
	if len(stale) > 0 {
		plan.do(postgres.WriteFiles{
			Why: "the configuration on disk is not what the settings say", Files: stale, Spare: complete(s),
		})
	}
	return false
}

func startTheServer(s postgres.Snapshot, plan *draft) bool {
	if s.Process.Running {
		return false
	}
	primary, wanted := startAs(s, plan)
	if !wanted {
		return true
	}
	_, mark := plan.files(s)
	if s.Process.Failures > 0 && s.Process.Mark == mark && noteRefused(s, complainedAbout(s.Process), plan) {
		return true
	}
	// A corrected configuration is tried at once.
	left := s.Process.Pause() - s.Now.Sub(s.Process.Ended)
	if s.Process.Failures > 1 && s.Process.Mark == mark && left > 0 {
		plan.wait(postgres.Hold{
			Reason: wire.ReasonServerFailing,
			Detail: fmt.Sprintf("PostgreSQL ends again and again soon after its start (%s)%s", s.Process.Exit,
				lastWords(s.Process)),
			Recheck: left,
		})
		return true
	}
	if s.Data.PIDFile {
		plan.do(postgres.RemovePIDFile{
			Why: "postmaster.pid is of a server that is no more: the lock of the volume is ours, and nothing of it is left",
		})
	}
	start := postgres.StartServer{Why: startReason(s), Mark: mark, Primary: primary, Restart: token(s)}
	if s.Standing.Role == tenure.RoleLead && !primary {
		start.Withdraw = s.Standing.Timeline
	}
	plan.do(start)
	return true
}

// lastWords has no number that changes with each attempt: a report that changes is written down each time.
func lastWords(process postgres.Process) string {
	if process.LastWords == "" {
		return "; its log tells more"
	}
	return ": " + process.LastWords
}

func startReason(s postgres.Snapshot) postgres.Why {
	if s.Data.State == "shut down" || s.Data.State == "shut down in recovery" {
		return "the server was stopped cleanly and is wanted"
	}
	return postgres.Why("the server did not stop cleanly (" + s.Data.State + "): it will recover from its log")
}

func waitForTheServer(s postgres.Snapshot, plan *draft) bool {
	if s.Server.Reachable {
		return false
	}
	if s.Standing.Role == tenure.RoleLead && s.Process.Consistent && s.Data.Standby && !s.Process.LetsIn {
		promoteASilentReplica(s, plan)
		return true
	}
	plan.hold(wire.ReasonServerRecovering, "PostgreSQL does not accept connections yet: %s", s.Server.Problem)
	return true
}

// reloadWhatChanged also learns what the server does not accept, which shows only of what it has loaded.
func reloadWhatChanged(s postgres.Snapshot, plan *draft) bool {
	if _, mark := plan.files(s); s.Server.Loaded != mark || s.Server.Proven != mark {
		plan.do(postgres.Reload{Why: "the server has not loaded the present configuration"})
		return false
	}
	noteRefused(s, s.Server.Refused, plan)
	return false
}
