package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Action is one act with its reason. There is one struct for each verb; the fields beside Why are what it does and the
// state that it was decided on.
type Action interface {
	// Verb is the act with its object, for people.
	Verb() string
	// Because is why, one sentence.
	Because() string
}

// Why is the reason of an action.
type Why string

// Because returns the reason.
func (w Why) Because() string { return string(w) }

// LockVolume takes the lock of the volume, or fails if somebody else has it.
type LockVolume struct{ Why }

// ClaimVolume writes the first record on a volume that has none, with a new incarnation.
type ClaimVolume struct {
	Why
	DatabaseUID string
	// Incarnation is the one to take.
	Incarnation string
	// ClaimUID is the claim of the volume, empty if it is not known.
	ClaimUID string
}

// RecordClaim notes the claim that the copy lives under from now on (I1).
type RecordClaim struct {
	Why
	ClaimUID string
	// PutBack is that of the record, for a copy that was put back and that a user vouches for.
	PutBack int
}

// Initialise makes a data directory beside its place and moves it there. It demands a record that says so.
type Initialise struct {
	Why
	Major int
	User  string
}

// Restore makes a data directory beside its place out of a repository of backups, and moves it there. It goes on beside
// the passes, and demands what Initialise demands.
type Restore struct {
	Why
	From wire.Restore
	// DatabaseUID, Major and Application are those of the new database.
	DatabaseUID string
	Major       int
	Application wire.Application
}

// Purpose is what a restore under a standing is for: it goes on for as long as that stays the same.
func (a Restore) Purpose(standing tenure.Standing) string {
	// It has nothing but text and numbers, which can always be written.
	document, _ := json.Marshal([]any{a.From, a.DatabaseUID, a.Major, a.Application})
	sum := sha256.Sum256(document)
	return Essence(standing) + " " + hex.EncodeToString(sum[:8])
}

// RecordInitialised notes that the data directory is complete.
type RecordInitialised struct {
	Why
	SystemIdentifier string
}

// RecordSettings notes the settings that are about to be put in force.
type RecordSettings struct {
	Why
	Settings wire.Settings
	// Kept are the parameters that are in force until then.
	Kept []wire.Parameter
	// Spare says that the server can do with the complete files of before: when this fails, the rest goes on with them.
	Spare bool
}

// RecordRefused notes parameters that PostgreSQL does not accept, all that are known for these settings.
type RecordRefused struct {
	Why
	Refused Refused
}

// RecordApplication notes that the application's role and database were made. Nothing is made in their place after it.
type RecordApplication struct {
	Why
	Application wire.Application
}

// TightenMode closes the data directory to everybody but its owner.
type TightenMode struct{ Why }

// KillLeftover kills what lives of a server that has ended.
type KillLeftover struct{ Why }

// RemovePIDFile removes the postmaster.pid of a server that is no more. It demands the lock.
type RemovePIDFile struct{ Why }

// InstallCertificate copies the mounted certificate to where PostgreSQL reads it, if it is still this one.
type InstallCertificate struct {
	Why
	Identity string
}

// WriteFiles writes configuration files.
type WriteFiles struct {
	Why
	Files []Content
	// Spare is as in RecordSettings.
	Spare bool
}

// Content is a file to be written.
type Content struct {
	Name, Text string
}

// StartServer starts PostgreSQL with the configuration that has this mark, which is none if it could not be written.
type StartServer struct {
	Why
	Mark string
	// Primary says that it leads, which it must have the right to.
	Primary bool
	// Restart is the token that is done by it.
	Restart string
	// Withdraw is a timeline that a promotion may have begun and never written to: the next promotion is to get it.
	Withdraw int
}

// StopServer stops PostgreSQL, whatever sessions are open.
type StopServer struct {
	Why
	// Within is how long a clean stop may take before every process is killed, 0 for the usual bounds.
	Within time.Duration
}

// DrainSessions ends the sessions of applications and flushes the WAL that they have written. It is for a server whose
// gate is closed.
type DrainSessions struct {
	Why
	For string
}

// Reload makes PostgreSQL read its configuration again.
type Reload struct{ Why }

// CreateRole makes the application's role, with its password.
type CreateRole struct {
	Why
	Name string
}

// SetPassword lets a login of the application in with the mounted password: the present one, or the next.
type SetPassword struct {
	Why
	// Name is that of the login, Owner whom it acts for.
	Name, Owner string
	Next        bool
}

// CreateDatabase makes the application's database.
type CreateDatabase struct {
	Why
	Name, Owner string
}

// CreateExtension makes an extension in the application's database.
type CreateExtension struct {
	Why
	Database, Name string
}

// UpdateExtension brings an extension to the version that the image has.
type UpdateExtension struct {
	Why
	Database, Name, To string
}

// GrantExtension lets everybody in the database read what an extension of a superuser has brought.
type GrantExtension struct {
	Why
	Database, Name string
}

// NoteLibraries notes the versions of libraries that the application's database is written with.
type NoteLibraries struct {
	Why
	Database, Versions string
}

// Verb implements Action.
func (a NoteLibraries) Verb() string { return "NoteLibraries " + a.Versions }

// SpendReserve gives up what was held back, so that a server can start. KeepReserve holds it back again.
type SpendReserve struct{ Why }

// KeepReserve is the other way round.
type KeepReserve struct{ Why }

// AskToYield asks the loop of the lease to give the place to another member, so that this server can be started anew.
type AskToYield struct {
	Why
	Token string
}

// Verb implements Action.
func (SpendReserve) Verb() string { return "SpendReserve" }

// Verb implements Action.
func (KeepReserve) Verb() string { return "KeepReserve" }

// Verb implements Action.
func (a AskToYield) Verb() string { return "AskToYield for " + a.Token }

// Verb implements Action.
func (LockVolume) Verb() string { return "LockVolume" }

// Verb implements Action.
func (a ClaimVolume) Verb() string { return "ClaimVolume for " + a.DatabaseUID }

// Verb implements Action.
func (a RecordClaim) Verb() string { return "RecordClaim " + a.ClaimUID }

// Verb implements Action.
func (a Initialise) Verb() string { return fmt.Sprintf("Initialise version %d", a.Major) }

// Verb implements Action.
func (a Restore) Verb() string { return fmt.Sprintf("Restore %s/%s", a.From.Namespace, a.From.Name) }

// Verb implements Action.
func (a RecordInitialised) Verb() string { return "RecordInitialised " + a.SystemIdentifier }

// Verb implements Action.
func (a RecordSettings) Verb() string { return "RecordSettings" }

// Verb implements Action.
func (a RecordRefused) Verb() string {
	verb := "RecordRefused " + strings.Join(a.Refused.Names, " ")
	if len(a.Refused.Bare) > 0 {
		verb += " without " + strings.Join(a.Refused.Bare, " ")
	}
	return verb
}

// Verb implements Action.
func (a RecordApplication) Verb() string {
	return "RecordApplication " + a.Application.Database + " of " + a.Application.Owner
}

// Verb implements Action.
func (TightenMode) Verb() string { return "TightenMode" }

// Verb implements Action.
func (KillLeftover) Verb() string { return "KillLeftover" }

// Verb implements Action.
func (RemovePIDFile) Verb() string { return "RemovePIDFile" }

// Verb implements Action.
func (a InstallCertificate) Verb() string { return "InstallCertificate " + a.Identity }

// Verb implements Action.
func (a WriteFiles) Verb() string {
	var names []string
	for _, file := range a.Files {
		names = append(names, file.Name)
	}
	return "WriteFiles " + strings.Join(names, " ")
}

// Verb implements Action.
func (StartServer) Verb() string { return "StartServer" }

// Verb implements Action.
func (a StopServer) Verb() string {
	if a.Within > 0 {
		return fmt.Sprintf("StopServer within %s", a.Within)
	}
	return "StopServer"
}

// Verb implements Action.
// Verb implements Action.
func (DrainSessions) Verb() string { return "DrainSessions" }

// Verb implements Action.
func (Reload) Verb() string { return "Reload" }

// Verb implements Action.
func (a CreateRole) Verb() string { return "CreateRole " + a.Name }

// Verb implements Action.
func (a SetPassword) Verb() string { return "SetPassword of " + a.Name }

// Verb implements Action.
func (a CreateDatabase) Verb() string { return "CreateDatabase " + a.Name + " of " + a.Owner }

// Verb implements Action.
func (a CreateExtension) Verb() string { return "CreateExtension " + a.Name }

// Verb implements Action.
func (a UpdateExtension) Verb() string { return "UpdateExtension " + a.Name + " to " + a.To }

// Verb implements Action.
func (a GrantExtension) Verb() string { return "GrantExtension " + a.Name }
