// Command gcs is a server that speaks the JSON API of Google Cloud Storage, for tests. It is not Google's.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:4443", "address to listen at")
	bucket := flag.String("bucket", "backups", "bucket to make")
	flag.Parse()
	host, port, _ := strings.Cut(*listen, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		fmt.Fprintln(os.Stderr, "-listen: it is no address with a port")
		os.Exit(1)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		Scheme: "http", Host: host, Port: uint16(number), ExternalURL: "http://" + *listen, PublicHost: *listen,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: *bucket})
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	server.Stop()
}
