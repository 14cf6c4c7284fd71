// Package render makes the configuration file that a server of a cache is started with. It is pure. What can be changed
// in a running server is not in it, but for memory and policy: a server has those from its first moment on.
//
// Start reading at File.
package render

import (
	"cmp"
	"fmt"
	"strings"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// Names below the runtime folder.
const (
	SocketFile = "server.sock"
	// DataFolder is where the server puts files in passing. It is empty at each start: a copy begins with nothing.
	DataFolder = "data"
	ConfigFile = "server.conf"
	TLSFolder  = "tls"
)

// AgentUser is whom the agent is to the server.
const AgentUser = "meridian"

// Input is what the file is made of.
type Input struct {
	// Runtime is the folder of the socket and of the certificate's copy.
	Runtime string
	// Port is where applications connect, and Listen at which address, empty for all.
	Port   int
	Listen string
	// AgentHash is the SHA-256 of the agent's password, in hexadecimal digits. The password itself is in no file.
	AgentHash string
	// Member is what the server announces itself as to whom it follows.
	Member wire.Member
	Start  redis.StartServer
}

// File renders the file. There is no application in it: the server is born closed, and opened later.
func File(in Input) string {
	tls := in.Runtime + "/" + TLSFolder + "/"
	lines := []string{
		"# Written by the agent at each start of the server.",
		"daemonize no",
		"protected-mode no",
		"bind " + cmp.Or(in.Listen, "* -::*"),
		"port 0",
		fmt.Sprintf("tls-port %d", in.Port),
		"tls-cert-file " + tls + wire.KeyCertificate,
		"tls-key-file " + tls + wire.KeyPrivateKey,
		"tls-ca-cert-file " + tls + wire.KeyAuthority,
		"tls-auth-clients no",
		`tls-protocols "TLSv1.2 TLSv1.3"`,
		"unixsocket " + in.Runtime + "/" + SocketFile,
		"unixsocketperm 700",
		"dir " + in.Runtime + "/" + DataFolder,
		`save ""`,
		"appendonly no",
		// A replica says which copy it is, and answers nobody when it has lost its primary: no news is not good news.
		"tls-replication yes",
		"replica-announce-ip " + in.Member.String(),
		"replica-serve-stale-data no",
		"replica-read-only yes",
		"repl-ping-replica-period 1",
		"repl-timeout 10",
		"repl-diskless-sync yes",
		"repl-diskless-sync-delay 0",
		// What a replica has taken as a file does not stay: a server that starts would take it for its data.
		"rdb-del-sync-files yes",
		"repl-backlog-size 8mb",
		fmt.Sprintf("client-output-buffer-limit replica %[1]d %[1]d 0", redis.Waiting(in.Start.Memory)),
		"shutdown-timeout 0",
		fmt.Sprintf("maxmemory %d", in.Start.Memory),
		"maxmemory-policy " + in.Start.Policy,
		"user default off",
		"user " + AgentUser + " on #" + in.AgentHash + " ~* &* +@all",
	}
	for _, parameter := range in.Start.Fixed {
		lines = append(lines, parameter.Name+" "+quoted(parameter.Value))
	}
	return strings.Join(lines, "\n") + "\n"
}

// quoted protects blanks. Values have no quotes, backslashes or control characters: admission and the settings' own
// check refuse them, and what slips through would only be read as another value of the same parameter.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
