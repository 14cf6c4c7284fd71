package lives

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// sloppy is a client by which an operator makes mistakes: it sees what is not there, and writes what it should not.
type sloppy struct {
	client.Client
	// seen changes what was read.
	seen func(client.Object)
	// failed changes the error of a read.
	failed func(error) error
	// create, patch and remove take the place of those writes; those that are nil stay as they are.
	create func(context.Context, client.Object, ...client.CreateOption) error
	patch  func(context.Context, client.Object, client.Patch, ...client.PatchOption) error
	remove func(context.Context, client.Object, ...client.DeleteOption) error
	status func(client.SubResourceWriter) client.SubResourceWriter
}

func (s *sloppy) look(object runtime.Object) {
	if s.seen == nil {
		return
	}
	if list, ok := object.(client.ObjectList); ok {
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			s.seen(item.(client.Object))
			return nil
		})
		return
	}
	s.seen(object.(client.Object))
}

func (s *sloppy) answer(err error, object runtime.Object) error {
	if err == nil {
		s.look(object)
	} else if s.failed != nil {
		err = s.failed(err)
	}
	return err
}

func (s *sloppy) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	return s.answer(s.Client.Get(ctx, key, into, o...), into)
}

func (s *sloppy) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	return s.answer(s.Client.List(ctx, into, o...), into)
}

func (s *sloppy) Create(ctx context.Context, object client.Object, o ...client.CreateOption) error {
	if s.create != nil {
		return s.create(ctx, object, o...)
	}
	return s.Client.Create(ctx, object, o...)
}

func (s *sloppy) Patch(ctx context.Context, object client.Object, patch client.Patch, o ...client.PatchOption) error {
	if s.patch != nil {
		return s.patch(ctx, object, patch, o...)
	}
	return s.Client.Patch(ctx, object, patch, o...)
}

func (s *sloppy) Delete(ctx context.Context, object client.Object, o ...client.DeleteOption) error {
	if s.remove != nil {
		return s.remove(ctx, object, o...)
	}
	return s.Client.Delete(ctx, object, o...)
}

func (s *sloppy) Status() client.SubResourceWriter {
	if s.status != nil {
		return s.status(s.Client.Status())
	}
	return s.Client.Status()
}

// sees has an operator believe what it does not see, from the cache and live.
func sees[T client.Object](lie func(T)) func(*parts) {
	return func(p *parts) {
		seen := func(object client.Object) {
			if found, ok := object.(T); ok {
				lie(found)
			}
		}
		p.client = &sloppy{Client: p.client, seen: seen}
		p.live = &sloppy{Client: p.live, seen: seen}
	}
}

// Seeing is a client that changes what it reads before anybody sees it.
func Seeing(inner client.Client, change func(client.Object)) client.Client {
	return &sloppy{Client: inner, seen: change}
}

// writes has an operator write in another way.
func writes(how func(*sloppy)) func(*parts) {
	return func(p *parts) {
		made := &sloppy{Client: p.client}
		how(made)
		p.client = made
	}
}

// reconciler is a loop with something around it.
type reconciler func(context.Context, reconcile.Request) (reconcile.Result, error)

func (r reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return r(ctx, request)
}
