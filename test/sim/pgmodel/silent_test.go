//go:build cluster

package pgmodel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/test/sim/pgmodel"
)

// TestFidelityOfASilentStandby does to both what random operations do not: a standby begins its recovery while a
// transaction with more subtransactions than a record of running transactions names is open, and lets nobody in.
func TestFidelityOfASilentStandby(t *testing.T) {
	stories(t, map[string]func(*pair) []act{
		"and the transaction ends": silent, "and nobody makes a checkpoint": silentForLong,
		"is promoted": silentAndPromoted, "and its primary starts again": silentAndRecovered,
		"and another transaction is open": silentAndOvertaken,
	})
}

// long is a transaction with many subtransactions, in both.
type long struct {
	on    string
	model *pgmodel.Long
	real  *pgx.Conn
}

// opens begins one, which writes, and a checkpoint after it, of which standbys that stop make a restartpoint.
func (b *pair) opens(on string, into *long) act {
	return act{"open a long transaction on " + on, func() (string, string) {
		made, err := b.model.servers[on].OpenLong()
		connection, realErr := b.real[on].connect(context.Background(), map[string]string{"synchronous_commit": "local"})
		if realErr == nil {
			_, realErr = connection.Exec(context.Background(), "begin; create temp table many (id int);"+
				strings.Repeat("savepoint a; insert into many values (1); release a;", 70))
		}
		*into = long{on, made, connection}
		if class(err) != class(realErr) || err != nil {
			return class(err), class(realErr)
		}
		return b.checkpoint(on)
	}}
}

// ends commits it.
func (b *pair) ends(ended *long) act {
	return act{"commit the long transaction", func() (string, string) {
		b.ids++
		over, err := b.model.servers[ended.on].CommitLong(ended.model, b.ids, pgmodel.LevelLocal, nil)
		if over {
			err = errors.New("it is over")
		}
		_, realErr := ended.real.Exec(context.Background(), fmt.Sprintf("insert into t values (%d); commit", b.ids))
		_ = ended.real.Close(context.Background())
		return class(err), class(realErr)
	}}
}

// both does two operations at once.
func both(one, other act) act {
	return act{one.name + ", " + other.name, func() (string, string) {
		if model, actual := one.run(); model != actual {
			return model, actual
		}
		return other.run()
	}}
}

// staysClosed waits until a real standby is consistent, and has had the time to let somebody in.
func (b *pair) staysClosed(name string) act {
	return act{name + " stays closed", func() (string, string) {
		b.model.settle(settled)
		for end := time.Now().Add(ceiling); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			log, _ := os.ReadFile(filepath.Join(b.real[name].folder, "log"))
			if strings.Contains(string(log[b.real[name].logged:]), "consistent recovery state reached") {
				break
			}
		}
		time.Sleep(time.Second)
		return fmt.Sprint(b.model.servers[name].Silent(), b.modelSees(name)), fmt.Sprint(true, b.realSees(name))
	}}
}

// silences stops a standby and starts it, and it is silent.
func (b *pair) silences(name string) []act {
	return []act{b.stops(name), b.starts(name, true), b.staysClosed(name)}
}

func silent(b *pair) []act {
	var open long
	acts := append([]act{b.opens("a", &open)}, b.silences("b")...)
	return append(acts, b.writes("a"), b.checkpoints("a"), b.staysClosed("b"), b.killed("b"), b.starts("b", true),
		b.staysClosed("b"), both(b.ends(&open), b.checkpoints("a")), b.stops("b"), b.starts("b", true))
}

// silentForLong: the background writer tells of running transactions as well.
func silentForLong(b *pair) []act {
	var open long
	acts := append([]act{b.opens("a", &open)}, b.silences("b")...)
	return append(acts, both(b.ends(&open), act{"wait", func() (string, string) {
		b.model.settle(16 * time.Second)
		return "", ""
	}}), b.writes("a"))
}

func silentAndPromoted(b *pair) []act {
	var open long
	acts := append([]act{b.opens("a", &open)}, append(b.silences("b"), b.silences("c")...)...)
	return append(acts, b.writes("a"), b.killed("a"), b.staysClosed("b"), b.promotes("b"), b.follows("c", "b"),
		b.writes("b"))
}

func silentAndRecovered(b *pair) []act {
	var open long
	acts := append([]act{b.opens("a", &open)}, b.silences("b")...)
	return append(acts, b.killed("a"), b.staysClosed("b"), b.starts("a", false), b.writes("a"))
}

// silentAndOvertaken: that all have ended which were open at the begin is enough.
func silentAndOvertaken(b *pair) []act {
	var first, second long
	acts := append([]act{b.opens("a", &first)}, b.silences("b")...)
	return append(acts, b.opens("a", &second), b.staysClosed("b"), both(b.ends(&first), b.checkpoints("a")),
		b.stops("b"), b.starts("b", true), b.staysClosed("b"))
}

func (b *pair) checkpoints(name string) act {
	return act{"checkpoint " + name, func() (string, string) { return b.checkpoint(name) }}
}
