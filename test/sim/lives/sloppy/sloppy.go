// Package sloppy is a client by which an operator makes mistakes: it sees what is not there, and writes what it should
// not.
package sloppy

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client makes them, in the ways that are set.
type Client struct {
	client.Client
	// OnSeen changes what was read.
	OnSeen func(client.Object)
	// OnFailed changes the error of a read.
	OnFailed func(error) error
	// OnCreate, OnPatch, OnRemove and OnStatus take the place of those writes; those that are nil stay as they are.
	OnCreate func(context.Context, client.Object, ...client.CreateOption) error
	OnPatch  func(context.Context, client.Object, client.Patch, ...client.PatchOption) error
	OnRemove func(context.Context, client.Object, ...client.DeleteOption) error
	OnStatus func(client.SubResourceWriter) client.SubResourceWriter
}

func (s *Client) look(object runtime.Object) {
	if s.OnSeen == nil {
		return
	}
	if list, ok := object.(client.ObjectList); ok {
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			s.OnSeen(item.(client.Object))
			return nil
		})
		return
	}
	s.OnSeen(object.(client.Object))
}

func (s *Client) answer(err error, object runtime.Object) error {
	if err == nil {
		s.look(object)
	} else if s.OnFailed != nil {
		err = s.OnFailed(err)
	}
	return err
}

// Get implements client.Client.
func (s *Client) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	return s.answer(s.Client.Get(ctx, key, into, o...), into)
}

// List implements client.Client.
func (s *Client) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	return s.answer(s.Client.List(ctx, into, o...), into)
}

// Create implements client.Client.
func (s *Client) Create(ctx context.Context, object client.Object, o ...client.CreateOption) error {
	if s.OnCreate != nil {
		return s.OnCreate(ctx, object, o...)
	}
	return s.Client.Create(ctx, object, o...)
}

// Patch implements client.Client.
func (s *Client) Patch(ctx context.Context, object client.Object, patch client.Patch, o ...client.PatchOption) error {
	if s.OnPatch != nil {
		return s.OnPatch(ctx, object, patch, o...)
	}
	return s.Client.Patch(ctx, object, patch, o...)
}

// Delete implements client.Client.
func (s *Client) Delete(ctx context.Context, object client.Object, o ...client.DeleteOption) error {
	if s.OnRemove != nil {
		return s.OnRemove(ctx, object, o...)
	}
	return s.Client.Delete(ctx, object, o...)
}

// Status implements client.Client.
func (s *Client) Status() client.SubResourceWriter {
	if s.OnStatus != nil {
		return s.OnStatus(s.Client.Status())
	}
	return s.Client.Status()
}
