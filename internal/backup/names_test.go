package backup_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup"
)

const size = 16 << 20

func TestNamesAreReadAsTheyWereWritten(t *testing.T) {
	for name, want := range map[string]backup.Key{
		backup.OwnerName:                              {Kind: backup.KindOwner},
		backup.TermName(12):                           {Kind: backup.KindTerm, Term: 12},
		backup.BaseName("b1"):                         {Kind: backup.KindBackup, ID: "b1"},
		backup.PartName("b1", 3, ".zst.age"):          {Kind: backup.KindBase, ID: "b1"},
		backup.ManifestName("b1", ".zst"):             {Kind: backup.KindBase, ID: "b1"},
		backup.WALName(2, 0x1FF, size, ".zst.age"):    {Kind: backup.KindSegment, Timeline: 2, Number: 0x1FF},
		backup.HistoryName(3):                         {Kind: backup.KindHistory, Timeline: 3},
		backup.VerifiedName("b1", "20261118T101500Z"): {Kind: backup.KindVerified, ID: "b1"},
		backup.GapName(2, backup.Gap{First: 5, Last: 9}, size): {
			Kind: backup.KindGap, Timeline: 2, Number: 5, To: 9,
		},
		backup.TailName(2, backup.Tail{Number: 5, From: 16, To: 32}, size, ".zst.age"): {
			Kind: backup.KindTail, Timeline: 2, Number: 5, From: 16, To: 32,
		},
		"wal/00000002/000000030000000000000005.zst":                            {Kind: backup.KindForeign},
		"wal/00000002/00000002000000000000000a.zst":                            {Kind: backup.KindForeign},
		"wal/00000002/000000020000000000000FFF.zst":                            {Kind: backup.KindForeign},
		"wal/00000002/000000020000000000000005.00000020-00000010.tail.zst":     {Kind: backup.KindForeign},
		"wal/00000002/000000020000000000000005.zst.age.lost":                   {Kind: backup.KindForeign},
		"wal/00000002/000000020000000000000005.00000000-00000010.tail.zst.tmp": {Kind: backup.KindForeign},
		"wal/00000002/000000020000000000000005":                                {Kind: backup.KindForeign},
		"terms/12.json":                                                        {Kind: backup.KindForeign},
		"base/x/y/z":                                                           {Kind: backup.KindForeign},
		"contact/1-small":                                                      {Kind: backup.KindForeign},
		"owner.json.bak":                                                       {Kind: backup.KindForeign},
		"wal/owner.json":                                                       {Kind: backup.KindForeign},
		"base/backup.json":                                                     {Kind: backup.KindForeign},
	} {
		if diff := cmp.Diff(want, backup.ParseKey(name, size)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamesSortInTheOrderOfTheLog(t *testing.T) {
	one := backup.WALName(1, 0xFF, size, ".zst")
	two := backup.WALName(1, 0x100, size, ".zst")
	if one != "wal/00000001/0000000100000000000000FF.zst" || two != "wal/00000001/000000010000000100000000.zst" ||
		one >= two {
		t.Errorf("%s, then %s", one, two)
	}
}

func TestABackupIsWrittenInPostgreSQLsWords(t *testing.T) {
	content, err := json.Marshal(backup.Backup{Version: 1, ID: "b1", Timeline: 2, Start: 0x2000028, Stop: 0x2000138})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"id":"b1","timeline":2,"start":"0/2000028","stop":"0/2000138","size":0,"parts":null,` +
		`"manifest":{"name":"","files":0,"size":0,"sha256":""}}`
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTailsThatOverlapCoverASegmentOnce(t *testing.T) {
	log := backup.Log{Timeline: 1, Tails: []backup.Tail{
		{Number: 4, From: 0, To: 100},
		{Number: 5, From: 0, To: 10}, {Number: 5, From: 0, To: 30}, {Number: 5, From: 10, To: 20},
		{Number: 5, From: 30, To: 40}, {Number: 5, From: 50, To: 60},
	}}
	if _, reach := log.Cover(5); reach != 40 {
		t.Errorf("segment 5 reaches to %d, want 40: there is a hole behind", reach)
	}
	if _, reach := log.Cover(6); reach != 0 {
		t.Errorf("segment 6 reaches to %d", reach)
	}
}

// Whoever restores fetches each tail: one that covers many is fetched in their place.
func TestASegmentIsCoveredByAsFewTailsAsThereCanBe(t *testing.T) {
	log := backup.Log{Timeline: 1, Tails: []backup.Tail{
		{Number: 5, From: 0, To: 10}, {Number: 5, From: 0, To: 25}, {Number: 5, From: 0, To: 40},
		{Number: 5, From: 10, To: 20},
		{Number: 5, From: 20, To: 25}, {Number: 5, From: 25, To: 30}, {Number: 5, From: 40, To: 50},
		{Number: 5, From: 50, To: 60}, {Number: 6, From: 0, To: 70},
	}}
	tails, reach := log.Cover(5)
	want := []backup.Tail{{Number: 5, To: 40}, {Number: 5, From: 40, To: 50}, {Number: 5, From: 50, To: 60}}
	if diff := cmp.Diff(want, tails); diff != "" || reach != 60 {
		t.Errorf("it reaches to %d, -want +got:\n%s", reach, diff)
	}
}
