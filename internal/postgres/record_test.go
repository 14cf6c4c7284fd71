package postgres_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

func TestRecordComesBack(t *testing.T) {
	for name, record := range map[string]postgres.Record{
		"in progress": {Version: 1, DatabaseUID: "u1", Incarnation: "i1", InProgress: postgres.StepInitialise},
		"complete": {
			Version: 1, DatabaseUID: "u1", Incarnation: "i1", SystemIdentifier: "7401",
			Settings: &wire.Settings{Version: 1, DatabaseUID: "u1", Extensions: []string{"postgis"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := record.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := postgres.DecodeRecord(document)
			if diff := cmp.Diff(record, back); diff != "" || err != nil {
				t.Errorf("%v, differs (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestRecordRefuses(t *testing.T) {
	for name, test := range map[string]struct{ document, want string }{
		"nothing":          {" \n", "empty"},
		"half a file":      {`{"version":1,"databaseUID":"u1"`, "unexpected"},
		"a newer version":  {`{"version":2,"databaseUID":"u1","incarnation":"i1","systemIdentifier":"7"}`, "version is 2"},
		"an unknown field": {`{"version":1,"databaseUID":"u1","incarnation":"i1","systemIdentifier":"7","term":3}`, "term"},
		"an unknown step":  {`{"version":1,"databaseUID":"u1","incarnation":"i1","inProgress":"dance"}`, "dance"},
		"no owner":         {`{"version":1,"incarnation":"i1","systemIdentifier":"7"}`, "databaseUID"},
		"no incarnation":   {`{"version":1,"databaseUID":"u1","systemIdentifier":"7"}`, "incarnation"},
		"no identifier":    {`{"version":1,"databaseUID":"u1","incarnation":"i1"}`, "systemIdentifier"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := postgres.DecodeRecord([]byte(test.document)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
