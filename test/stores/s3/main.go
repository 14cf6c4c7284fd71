// Command s3 is a real S3 server for tests and the demo: the gateway of versity, in one process and over a folder. It
// honours If-None-Match, parts, checksums and the lock of objects as Amazon does.
//
// It is a module of its own, so that the operator's users do not download its libraries.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// options are the flags.
type options struct{ listen, folder, buckets, certificate, key string }

func main() {
	var options options
	flag.StringVar(&options.listen, "listen", ":7070", "address to listen at")
	flag.StringVar(&options.folder, "folder", "/data", "where objects are kept")
	flag.StringVar(&options.buckets, "buckets", "", "buckets to make, with commas")
	flag.StringVar(&options.certificate, "certificate", "", "PEM file with a certificate; without it: plain HTTP")
	flag.StringVar(&options.key, "key", "", "PEM file with its key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers until the context ends. Who may come in is said in the environment.
func serve(ctx context.Context, options options) error {
	id, secret := os.Getenv("ACCESS_KEY_ID"), os.Getenv("SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return fmt.Errorf("start the server: ACCESS_KEY_ID and SECRET_ACCESS_KEY are to be set")
	}
	kept, facts := filepath.Join(options.folder, "objects"), filepath.Join(options.folder, "facts")
	for _, path := range []string{kept, facts} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("start the server: %w", err)
		}
	}
	// Beside the objects and not in attributes of the file system, which not every one has.
	beside, err := meta.NewSideCar(facts)
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	backend, err := posix.New(kept, beside, posix.PosixOpts{SideCarDir: facts, NewDirPerm: 0o700})
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	for bucket := range strings.SplitSeq(options.buckets, ",") {
		if err := os.MkdirAll(filepath.Join(kept, bucket), 0o700); bucket != "" && err != nil {
			return fmt.Errorf("start the server: %w", err)
		}
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: id, RootUserSecret: secret, Ports: []string{options.listen}, HealthPath: "/healthz",
		CertFile: options.certificate, KeyFile: options.key, Quiet: true, KeepAlive: true,
		MaxConnections: 4096, MaxRequests: 1024, MultipartMaxParts: 10000,
	})
}
