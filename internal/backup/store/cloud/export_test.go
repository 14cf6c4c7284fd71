package cloud

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

func init() { firstPause = time.Millisecond }

// SetPage makes the pages of listings small.
func SetPage(of store.Store, size int) {
	switch driver := of.(type) {
	case *s3:
		driver.page = size
	case *gcs:
		driver.page = size
	case *azure:
		driver.page = size
	}
}

// MakeContainer makes the container of a driver for Azure.
func MakeContainer(ctx context.Context, of store.Store) error {
	driver, ok := of.(*azure)
	if !ok {
		return fmt.Errorf("%T is not of Azure", of)
	}
	answer, err := driver.do(ctx, azureRequest{
		method: http.MethodPut, doing: "make the container", query: url.Values{"restype": {"container"}},
	})
	if err == nil {
		discard(answer)
	}
	return err
}
