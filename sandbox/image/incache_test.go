package image

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestInCache puts an image where a build would put it, and looks for it before, after, and when its list has changed.
func TestInCache(t *testing.T) {
	options := Options{RecipesDir: t.TempDir(), CacheDir: t.TempDir()}
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(options.RecipesDir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("redis/image.yaml", "name: redis\ntag: \"8\"\nuser: {name: redis, uid: 65532}\nentrypoint: [redis-server]\n"+
		"debian: {suite: trixie, packages: redis/packages.txt}\n")
	write("redis/packages.txt", "redis-server\n")
	write(trimScript, "")
	expect := func(when string, want bool) {
		t.Helper()
		if got, err := InCache(options, "redis"); err != nil || got != want {
			t.Errorf("%s: in the cache %t, %v; want %t", when, got, err, want)
		}
	}
	expect("before", false)
	read, err := load(options.RecipesDir, "redis")
	if err != nil {
		t.Fatal(err)
	}
	store, err := options.open()
	if err != nil {
		t.Fatal(err)
	}
	key, err := read.key(store.epoch)
	if err != nil {
		t.Fatal(err)
	}
	with := settings{ref: read.reference(), user: "65532:65532", workdir: "/", entrypoint: read.Entrypoint}
	_, err = store.get(context.Background(), "redis", key, with, func(_ context.Context, work string) (*layer, error) {
		return writeLayer(filepath.Join(work, "layer.tar"), store.epoch, func(*layerWriter) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	expect("after", true)
	write("redis/packages.txt", "redis-server\nprocps\n")
	expect("with another list", false)
	if _, err := InCache(options, "none"); err == nil {
		t.Error("a recipe that does not exist is no error")
	}
}
