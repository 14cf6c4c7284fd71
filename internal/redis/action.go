package redis

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/internal/wire"
)

// Action is one act with its reason. There is one struct for each verb.
type Action interface {
	// Verb is the act with its object, for people. It names no secret.
	Verb() string
	// Because is why, one sentence.
	Because() string
}

// Why is the reason of an action.
type Why string

// Because returns the reason.
func (w Why) Because() string { return string(w) }

// InstallCertificate copies the mounted certificate to where the server reads it, if it is still this one.
type InstallCertificate struct {
	Why
	Identity string
}

// StartServer starts a closed server: nobody but the agent can log in.
type StartServer struct {
	Why
	Engine string
	Memory int64
	Policy string
	// Fixed are the parameters that can be given at the start only.
	Fixed []wire.Parameter
	// Certificate identifies the copy that it reads.
	Certificate string
}

// StopServer stops the server. What it holds is lost.
type StopServer struct{ Why }

// KillLeftover kills what lives of a server that has ended.
type KillLeftover struct{ Why }

// LoadCertificate has the server read its certificate again.
type LoadCertificate struct {
	Why
	Identity string
}

// SetMemory sets how much data the server may keep.
type SetMemory struct {
	Why
	Bytes int64
}

// SetPolicy sets what goes when the memory is full.
type SetPolicy struct {
	Why
	Policy string
}

// SetParameter sets a parameter, and ResetParameter brings one back to what it was when the server started.
type SetParameter struct {
	Why
	Parameter wire.Parameter
}

// ResetParameter is the reverse of SetParameter.
type ResetParameter struct {
	Why
	Name string
}

// OpenDoor lets the application in, with the mounted password and no other.
type OpenDoor struct{ Why }

// ReturnMemory has the server give back memory that it does not use.
type ReturnMemory struct{ Why }

// Verb implements Action.
func (InstallCertificate) Verb() string { return "InstallCertificate" }

// Verb implements Action.
func (a StartServer) Verb() string {
	var names []string
	for _, parameter := range a.Fixed {
		names = append(names, parameter.Name)
	}
	text := fmt.Sprintf("StartServer %s with %d bytes", a.Engine, a.Memory)
	if len(names) > 0 {
		text += " and " + strings.Join(names, ", ")
	}
	return text
}

// Verb implements Action.
func (StopServer) Verb() string { return "StopServer" }

// Verb implements Action.
func (KillLeftover) Verb() string { return "KillLeftover" }

// Verb implements Action.
func (LoadCertificate) Verb() string { return "LoadCertificate" }

// Verb implements Action.
func (a SetMemory) Verb() string { return fmt.Sprintf("SetMemory to %d bytes", a.Bytes) }

// Verb implements Action.
func (a SetPolicy) Verb() string { return "SetPolicy " + a.Policy }

// Verb implements Action.
func (a SetParameter) Verb() string {
	return fmt.Sprintf("SetParameter %s to %s", a.Parameter.Name, a.Parameter.Value)
}

// Verb implements Action.
func (a ResetParameter) Verb() string { return "ResetParameter " + a.Name }

// Verb implements Action.
func (OpenDoor) Verb() string { return "OpenDoor" }

// Verb implements Action.
func (ReturnMemory) Verb() string { return "ReturnMemory" }
