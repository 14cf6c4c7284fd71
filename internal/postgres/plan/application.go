package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// makeTheRole also ends the plan for a replica, where nothing can be made, and when the inside is unknown. A replica
// notes what it has got from its primary.
func makeTheRole(s postgres.Snapshot, plan *draft) bool {
	application := s.Application
	if s.Server.Replica {
		if settings, _ := wanted(s); application.Known && application.Role && application.Database && !made(s) {
			noteTheApplication(settings.Application, plan)
		}
		return true
	}
	if s.Standing.Role != tenure.RoleLead {
		return true
	}
	if !application.Known {
		plan.hold(wire.ReasonApplicationUnknown, "what exists for the application could not be seen: %s", application.Problem)
		return true
	}
	settings, _ := wanted(s)
	name := settings.Application.Owner
	switch {
	case made(s) && s.Volume.Record.Application.Owner != name:
		// Whoever can write the settings without the operator must not get at the password of another role.
		plan.hold(wire.ReasonSettingsUnreadable, "the settings name the role %q as the owner, and %q was made as it: only "+
			"that gets a password; name it again", name, s.Volume.Record.Application.Owner)
	case !application.Role && made(s):
		plan.wait(missing("role", name, fmt.Sprintf("ALTER ROLE ... RENAME TO %q", name)))
	case application.NoPassword != "":
		plan.hold(wire.ReasonPasswordMissing, "%s", application.NoPassword)
	case !application.Role:
		plan.do(postgres.CreateRole{Why: "the application's role does not exist", Name: name})
	default:
		setPasswords(s, name, plan)
	}
	return false
}

// setPasswords lets in whom the mounted Secret names. What the server was told of later is never undone by a Secret
// that this pod has not got anew yet.
func setPasswords(s postgres.Snapshot, owner string, plan *draft) {
	application := s.Application
	present := !application.Login || !application.PasswordMatches
	next := application.Next
	switch {
	case present && application.Rotation < application.NotedRotation:
		plan.hold(wire.ReasonCredentialsOld,
			"the mounted credentials are older than those that the server knows; newer ones are about to be mounted")
		return
	case present:
		plan.do(postgres.SetPassword{
			Why:  "the application's role has another password than its Secret",
			Name: cmp.Or(application.LoginName, owner), Owner: owner,
		})
	}
	switch {
	case next == nil || next.Rotation < application.NotedRotation || next.Works:
	case !next.Set:
		plan.do(postgres.SetPassword{
			Why:  "another login of the application is made ready",
			Name: cmp.Or(next.Name, owner), Owner: owner, Next: true,
		})
	case next.Problem != "" && s.Server.Open:
		plan.hold(wire.ReasonActionFailed, "the next login of the application is not let in: %s", next.Problem)
	}
}

// made tells whether role and database were both there once: a missing one is then a loss, and not a beginning.
func made(s postgres.Snapshot) bool {
	return s.Volume.Record != nil && s.Volume.Record.Application != nil
}

func missing(what, name, rename string) postgres.Hold {
	return postgres.Hold{
		Reason: wire.ReasonApplicationMissing, Stalled: true,
		Detail: fmt.Sprintf("the application's %s %q was made once and is not there any more, and a new one in its place "+
			"would hide that: if it was renamed, name it as before (%s); if it was dropped, bring it back from a copy, or "+
			"create it anew with SQL if nothing in it is missed", what, name, rename),
	}
}

func makeTheDatabase(s postgres.Snapshot, plan *draft) bool {
	settings, _ := wanted(s)
	wish, application := settings.Application, s.Application
	switch {
	case application.Database:
		return false
	case made(s):
		plan.wait(missing("database", wish.Database, fmt.Sprintf("ALTER DATABASE ... RENAME TO %q", wish.Database)))
	case application.Role || application.NoPassword == "":
		plan.do(postgres.CreateDatabase{
			Why: "the application's database does not exist", Name: wish.Database, Owner: wish.Owner,
		})
		noteTheApplication(wish, plan)
	}
	return true
}

// recordTheApplication is for an agent that died between the making and its note.
func recordTheApplication(s postgres.Snapshot, plan *draft) bool {
	if settings, _ := wanted(s); !made(s) && s.Application.Role {
		noteTheApplication(settings.Application, plan)
	}
	return false
}

// noteTheApplication comes after the making, because that can be repeated until applications are let in, which is after
// the note.
func noteTheApplication(application wire.Application, plan *draft) {
	plan.do(postgres.RecordApplication{
		Why: "role and database are there: from now on a missing one means a loss", Application: application,
	})
}

// extensionPause is before an extension that failed is tried again.
const extensionPause = 10 * time.Second

// makeExtensions makes one at a time, because a script may take long; what fails does not hold up the next.
func makeExtensions(s postgres.Snapshot, plan *draft) bool {
	settings, _ := wanted(s)
	job := s.JobOf(postgres.JobExtension)
	present := map[string]postgres.Extension{}
	for _, extension := range s.Application.Extensions {
		present[extension.Name] = extension
	}
	busy := job.Running
	for _, name := range append(slices.Clone(settings.Extensions), related(s, settings.Extensions)...) {
		extension := present[name]
		action := extensionAction(settings.Application.Database, name, extension)
		resting := job.Problem != "" && job.For == name && s.Now.Sub(job.Ended) < extensionPause
		switch {
		case extension.Installed == "" && extension.Available == "":
			plan.hold(wire.ReasonExtensionMissing,
				"the image has no extension %s: use an image that has it, or take it out of spec.extensions", name)
		case extension.Installed == "" && wire.LibraryAlone(name):
		case action != nil && extension.Foreign != "":
			// Its script would run as the superuser, on tables that the application can put triggers on.
			plan.hold(wire.ReasonExtensionForeign, "the extension %s belongs to the role %s, and only extensions of superusers "+
				"are updated by Meridian: update it as %[2]s (ALTER EXTENSION %[1]s UPDATE), or drop it, and it is created anew",
				name, extension.Foreign)
		case action != nil && resting:
			plan.hold(wire.ReasonActionFailed, "%s: %s", action.Verb(), job.Problem)
		case action != nil && !busy:
			plan.do(action)
			busy = true
		}
	}
	return false
}

// related are parts of PostGIS that a superuser has made and nobody has listed: they do not fit another version of it.
func related(s postgres.Snapshot, listed []string) []string {
	var names []string
	for _, extension := range s.Application.Extensions {
		part := strings.HasPrefix(extension.Name, "postgis_") && extension.Installed != "" && extension.Available != ""
		if part && extension.Foreign == "" && !slices.Contains(listed, extension.Name) {
			names = append(names, extension.Name)
		}
	}
	return names
}

// noteLibraries notes with which versions the data is written. When they change, what depends on them is told until
// somebody has rebuilt it and has taken the note away.
func noteLibraries(s postgres.Snapshot, plan *draft) bool {
	application := s.Application
	depends := slices.ContainsFunc(application.Libraries, func(library wire.Library) bool {
		return len(library.Indexes) > 0 && strings.Contains(application.Versions, library.Name+"=")
	})
	if application.Versions != "" && application.Versions != application.Noted && !depends {
		settings, _ := wanted(s)
		plan.do(postgres.NoteLibraries{
			Why: "nothing depends on other versions", Database: settings.Application.Database, Versions: application.Versions,
		})
	}
	return false
}

func extensionAction(database, name string, extension postgres.Extension) postgres.Action {
	current := extension.Available == "" || extension.Available == extension.Installed
	switch {
	case current && extension.Closed && wire.Reference(name):
		return postgres.GrantExtension{
			Why: "some of what it has brought can be read by superusers alone", Database: database, Name: name,
		}
	case current:
		return nil
	case extension.Installed == "":
		return postgres.CreateExtension{Why: "it is wanted and does not exist", Database: database, Name: name}
	}
	return postgres.UpdateExtension{
		Why:      postgres.Why("version " + extension.Installed + " is installed, and the image brings another"),
		Database: database, Name: name, To: extension.Available,
	}
}
