package seal_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"meridian.dev/meridian/internal/backup/seal"
)

func key(t *testing.T) string {
	t.Helper()
	text, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func keys(t *testing.T, text string) seal.Keys {
	t.Helper()
	parsed, err := seal.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func sealed(t *testing.T, by seal.Keys, content []byte) []byte {
	t.Helper()
	reader, err := by.Seal(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	result, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func open(by seal.Keys, object io.Reader) ([]byte, error) {
	reader, err := by.Open("x"+by.Suffix(), object)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(reader)
	return content, errors.Join(err, reader.Close())
}

// mixed is content of which a half can be compressed.
func mixed(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, size)
	for index := range content[:size/2] {
		content[index] = byte(random.Uint32())
	}
	return content
}

func TestWhatIsSealedIsOpened(t *testing.T) {
	for name, by := range map[string]seal.Keys{"encrypted": keys(t, key(t)), "only compressed": {}} {
		for _, size := range []int{0, 1, 128 << 10, 3<<20 + 1} {
			content := mixed(size)
			got, err := open(by, bytes.NewReader(sealed(t, by, content)))
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s, %d bytes: %d came back, %v", name, size, len(got), err)
			}
		}
	}
}

func TestAnOldKeyStillOpens(t *testing.T) {
	before, after := key(t), key(t)
	old := sealed(t, keys(t, before), []byte("x"))
	both := keys(t, after+"\n"+before)
	if _, err := open(both, bytes.NewReader(old)); err != nil {
		t.Errorf("the old key is listed, and does not open: %v", err)
	}
	if _, err := open(keys(t, before), bytes.NewReader(sealed(t, both, []byte("x")))); !errors.Is(err, seal.ErrKeyWrong) {
		t.Errorf("the new object was not written to the new key: %v", err)
	}
	if _, err := open(keys(t, after), bytes.NewReader(old)); !errors.Is(err, seal.ErrKeyWrong) {
		t.Errorf("a wrong key ended in %v", err)
	}
}

// Any flipped bit and any cut is found, at the latest at the end.
func TestDamageIsFound(t *testing.T) {
	for name, by := range map[string]seal.Keys{"encrypted": keys(t, key(t)), "only compressed": {}} {
		object := sealed(t, by, mixed(4096))
		for at := range object {
			damaged := bytes.Clone(object)
			damaged[at] ^= 0x10
			got, err := open(by, bytes.NewReader(damaged))
			if err == nil && !bytes.Equal(got, mixed(4096)) {
				t.Fatalf("%s: a flipped bit in byte %d of %d was not found", name, at, len(object))
			}
			if err != nil && !errors.Is(err, seal.ErrDamaged) && !errors.Is(err, seal.ErrKeyWrong) {
				t.Fatalf("%s: a flipped bit in byte %d ended in %v", name, at, err)
			}
			if at == 0 {
				continue // No bytes at all are an empty stream to zstd; whoever reads a part knows its size.
			}
			if _, err := open(by, bytes.NewReader(object[:at])); err == nil {
				t.Fatalf("%s: an end after %d of %d bytes was not found", name, at, len(object))
			}
		}
	}
}

func TestAStoreThatGoesAwayIsNoDamage(t *testing.T) {
	by := keys(t, key(t))
	object := sealed(t, by, mixed(1<<20))
	away := errors.New("away")
	for _, after := range []int64{0, 10, 300, 100 << 10} {
		_, err := open(by, io.MultiReader(io.LimitReader(bytes.NewReader(object), after), iotest.ErrReader(away)))
		if !errors.Is(err, away) || errors.Is(err, seal.ErrDamaged) {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}

func TestAReaderThatBreaksBreaksTheSeal(t *testing.T) {
	broken := errors.New("broken")
	reader, err := keys(t, key(t)).Seal(io.MultiReader(bytes.NewReader(mixed(1<<20)), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(reader); !errors.Is(err, broken) {
		t.Errorf("it ended in %v", err)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	if _, err := seal.ParseKeys("AGE-SECRET-KEY-1NONE"); err == nil {
		t.Error("it was accepted")
	}
}
