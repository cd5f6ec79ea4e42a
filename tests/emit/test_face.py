"""The public functions of a module: states, steps, errors, the layer. Kernels are tested elsewhere."""

import dataclasses
import itertools
import os
import subprocess
import sys

import pytest
import torch

from tests.emit import faces
from tests.emit.faces import SPECS, build, part, row_axis, rows, sizes, tensors

CAUSAL = [name for name in SPECS if name not in ("everything", "softmax_of_all")]
STATES_OF_SUMS = ["linear", "linear_padded", "linear_blhd", "read_before", "delta", "favor"]
SPLITS = [(6,), (1, 5), (5, 1), (2, 2, 2), (1,) * 6, (3, 0, 3), (0, 6)]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    known = {}

    def get(name):
        if name not in known:
            path = tmp_path_factory.mktemp(name) / "made.py"
            known[name] = build(SPECS[name], path)
        return known[name]

    return get


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def close(got, want, limit=1e-12):
    assert got.shape == want.shape
    if got.dtype is torch.bool:
        assert torch.equal(got, want)
        return
    assert (got == want).logical_or((got - want).abs() <= limit * (1 + want.abs())).all()


def whole(module, n, dtype=torch.float64):
    return (*rows(module, n, dtype), tensors(module, n, dtype))


@pytest.mark.parametrize("name", SPECS)
def test_attention_is_the_reference(made, name):
    module = made(name)
    q, k, v, given = whole(module, sizes(module))
    close(module.attention(q, k, v, **given), module.reference(q, k, v, **given))
    n = sizes(module)
    o = module.attention(q, k, v, **given)
    H, L = (n["H"], n["L"]) if row_axis(module) == 2 else (n["L"], n["H"])
    assert o.shape == (n["B"], H, L, faces.size_of(module, "value", n))


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("grad", [False, True])
def test_calls_in_a_row_are_one_call(made, name, split, grad):
    module = made(name)
    q, k, v, given = whole(module, sizes(module))
    q.requires_grad_(grad)
    want, end = module.reference(q, k, v, **given, return_state=True)
    ends = list(itertools.accumulate(split))
    for function in (module.attention, module.reference):
        state, parts = None, []
        for start, stop in zip([0, *ends], ends, strict=False):
            these, cut = part(module, q, k, v, given, slice(start, stop))
            o, state = function(*these, **cut, initial_state=state, return_state=True)
            parts.append(o)
            assert state.length == stop
        close(torch.cat(parts, row_axis(module)), want)
    for field in dataclasses.fields(module.State):
        if isinstance(x := getattr(end, field.name), torch.Tensor):
            close(getattr(state, field.name), x)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_step_is_a_row(made, name):
    module = made(name)
    n = sizes(module)
    q, k, v, given = whole(module, n)
    want = module.reference(q, k, v, **given)
    state = module.init_state(n["B"], heads=4, kv_heads=n["G"], d_k=n["d_k"], d_v=n["d_v"],
                              dtype=torch.float64, **({"m": 3} if name == "favor" else {}))  # fmt: skip
    axis = row_axis(module)
    for t in range(n["L"]):
        these, cut = part(module, q, k, v, given, slice(t, t + 1))
        for tensor in module.plan.tensors:
            for over in tensor.in_a_step:
                cut[tensor.decl.name] = cut[tensor.decl.name].squeeze(over)
        o, state = module.step(*(x.squeeze(axis) for x in these), state, **cut)
        close(o, want.select(axis, t))


def test_rows_of_earlier_keys_in_two_calls(made):
    module = made("linear")
    q, k, v, _ = whole(module, sizes(module, L=5, S=7))
    want = module.reference(q, k, v)
    first, state = module.attention(q[:, :, :2], k[:, :, :4], v[:, :, :4], return_state=True)
    second = module.attention(q[:, :, 2:], k[:, :, 4:], v[:, :, 4:], initial_state=state)
    close(torch.cat([first, second], 2), want)


@pytest.mark.parametrize("name", ["softmax", "softmax_of_all", "softmax_padded"])
def test_a_cache_takes_more_rows_than_keys(made, name):
    module = made(name)
    n = sizes(module, L=5, S=7)
    q, k, v, given = whole(module, n)
    want = module.reference(q, k, v, **given)
    _, state = module.attention(q, k[:, :, :4], v[:, :, :4], **given, return_state=True)
    got = module.attention(q, k[:, :, 4:], v[:, :, 4:], **given, initial_state=state)
    close(got, want)


def test_a_key_mask_is_judged_when_the_key_enters(made):
    module = made("softmax_padded")
    n = sizes(module)
    q, k, v, _ = whole(module, n)
    lengths = torch.tensor([2, 3])
    o, state = module.attention(
        q[:, :, :4], k[:, :, :4], v[:, :, :4], len=lengths, return_state=True
    )
    o = module.attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], len=torch.tensor([6, 6]),
                         initial_state=state)  # fmt: skip
    keep = [torch.tensor([0, 1, 4, 5]), torch.tensor([0, 1, 2, 4, 5])]
    plain = made("softmax")
    for b, at in enumerate(keep):
        want = plain.reference(q[b : b + 1, :, 4:], k[b : b + 1, :, at], v[b : b + 1, :, at])
        close(o[b : b + 1], want)


def test_sums_of_padded_keys_are_judged_when_they_enter(made):
    module = made("everything")
    q, k, v, _ = whole(module, sizes(module))
    first = (k[:, :, :4], v[:, :, :4])
    _, state = module.attention(q[:, :, :4], *first, len=torch.tensor([2, 3]), return_state=True)
    o = module.attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], len=torch.tensor([6, 6]),
                         initial_state=state)  # fmt: skip
    for b, at in enumerate([[0, 1, 4, 5], [0, 1, 2, 4, 5]]):
        ones = slice(b, b + 1)
        want = module.reference(q[ones, :, 4:], k[ones][:, :, at], v[ones][:, :, at],
                                len=torch.tensor([len(at)]))  # fmt: skip
        close(o[ones], want)


@pytest.mark.parametrize("name", ["softmax", "softmax_documents", "softmax_padded"])
def test_two_continuations_of_a_cache_do_not_meet(made, name):
    module = made(name)
    n = sizes(module)
    q, k, v, given = whole(module, n)
    other = [torch.randn_like(x) for x in (q, k, v)]
    these, cut = part(module, q, k, v, given, slice(0, 3))
    with torch.no_grad():
        _, state = module.attention(*these, **cut, return_state=True)
        _, state = module.attention(*part(module, q, k, v, given, slice(3, 4))[0],
                                    **part(module, q, k, v, given, slice(3, 4))[1],
                                    initial_state=state, return_state=True)  # fmt: skip
        assert state.capacity >= 6
        rest, cut = part(module, q, k, v, given, slice(4, 5))
        first, one = module.attention(*rest, **cut, initial_state=state, return_state=True)
        wrong, _ = part(module, *other, given, slice(4, 5))
        _, two = module.attention(*wrong, **cut, initial_state=state, return_state=True)
        assert one.room is state.room and two.room is not state.room
        rest, cut = part(module, q, k, v, given, slice(5, 6))
        second = module.attention(*rest, **cut, initial_state=one)
    want = module.reference(q, k, v, **given)
    close(torch.cat([first, second], 2), want[:, :, 4:])
    close(two.k[:, :, 4:], other[1][:, :, 4:5])
    close(state.k, k[:, :, :4])


def test_a_cache_appends_in_place_until_it_is_full(made):
    module = made("softmax")
    state = module.init_state(1, heads=2, d_k=4, d_v=4, capacity=4)
    assert state.capacity == 4
    rooms = []
    for _ in range(9):
        q, k, v = torch.randn(3, 1, 2, 4)
        with torch.no_grad():
            _, state = module.step(q, k, v, state)
        rooms.append(state.k.untyped_storage().data_ptr())
    assert len(set(rooms[:4])) == 1 and len(set(rooms[4:8])) == 1 and len(set(rooms)) == 3
    assert state.capacity == 16 and state.length == 9


def test_with_gradients_a_cache_concatenates(made):
    module = made("softmax")
    q, k, v, _ = whole(module, sizes(module))
    with torch.no_grad():
        _, state = module.attention(q[:, :, :2], k[:, :, :2], v[:, :, :2], return_state=True)
        _, state = module.step(q[:, :, 2], k[:, :, 2], v[:, :, 2], state)
    q.requires_grad_()
    o, after = module.step(q[:, :, 3], k[:, :, 3], v[:, :, 3], state)
    assert after.room is None
    with torch.no_grad():  # what autograd holds does not change
        module.step(q[:, :, 4], k[:, :, 4], v[:, :, 4], state)
        module.step(q[:, :, 4], k[:, :, 4], v[:, :, 4], after)
    o.sum().backward()
    assert q.grad[:, :, 3].abs().sum() > 0


def test_a_state_of_inference_goes_on_outside(made):
    module = made("softmax")
    state = module.init_state(1, heads=2, d_k=4, d_v=4, capacity=8)
    q, k, v = torch.randn(3, 1, 2, 3, 4)
    with torch.inference_mode():
        _, state = module.attention(q[:, :, :2], k[:, :, :2], v[:, :, :2], initial_state=state,
                                    return_state=True)  # fmt: skip
    with torch.no_grad():
        o, _ = module.step(q[:, :, 2], k[:, :, 2], v[:, :, 2], state)
    close(o, module.reference(q, k, v)[:, :, 2], 1e-6)


def test_the_state_is_no_view_of_the_keys(made):
    module = made("softmax")
    q, k, v, _ = whole(module, sizes(module))
    want = module.reference(q, k, v)
    for leaf in (False, True):
        keys = k.clone()
        rows = q.clone().requires_grad_(leaf)
        _, state = module.attention(rows[:, :, :5], keys[:, :, :5], v[:, :, :5], return_state=True)
        keys.zero_()
        o, _ = module.step(q[:, :, 5], k[:, :, 5], v[:, :, 5], state)
        close(o, want[:, :, 5])


@pytest.mark.parametrize("name", CAUSAL)
def test_gradients_flow_through_the_state(made, name):
    module = made(name)
    q, k, v, given = whole(module, sizes(module))
    leaves = [x for x in (q, k, v, *given.values()) if x.is_floating_point()]
    for x in leaves:
        x.requires_grad_()
    cotangent = torch.randn_like(module.reference(q, k, v, **given))
    want = torch.autograd.grad((module.reference(q, k, v, **given) * cotangent).sum(), leaves)
    first, cut = part(module, q, k, v, given, slice(0, 2))
    one, state = module.attention(*first, **cut, return_state=True)
    rest, cut = part(module, q, k, v, given, slice(2, 6))
    two = module.attention(*rest, **cut, initial_state=state)
    both = torch.cat([one, two], row_axis(module))
    for got, right in zip(torch.autograd.grad((both * cotangent).sum(), leaves), want, strict=True):
        close(got, right, 1e-11)


@pytest.mark.parametrize("name", STATES_OF_SUMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_sums_are_at_least_float32(made, name, dtype):
    module = made(name)
    n = sizes(module)
    q, k, v, given = whole(module, n, dtype)
    state = module.init_state(n["B"], heads=4, kv_heads=2, d_k=4, d_v=3, dtype=dtype,
                              **({"m": 3} if name == "favor" else {}))  # fmt: skip
    o, after = module.attention(q, k, v, **given, initial_state=state, return_state=True)
    plain, same = module.attention(q, k, v, **given, return_state=True)
    assert torch.equal(o, plain) and torch.equal(after.S, same.S)
    wanted = torch.float64 if dtype is torch.float64 else torch.float32
    assert state.S.dtype == after.S.dtype == same.S.dtype == wanted and o.dtype == dtype
    assert (after.z is None) == (module.spec.normalizer is None)
    assert state.S.shape == after.S.shape


def test_gradient_of_the_initial_state(made):
    module = made("linear")
    n = sizes(module)
    q, k, v, _ = whole(module, n)

    def apply(S, z):
        o, state = module.attention(q, k, v, initial_state=module.State(S, z, 3), return_state=True)
        return o, state.S, state.z

    S, z = torch.rand(2, 4, 4, 3, dtype=torch.float64), torch.rand(2, 4, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(apply, (S.requires_grad_(), z.requires_grad_()), fast_mode=True)


@pytest.mark.parametrize("name", ["linear_padded", "softmax_documents", "softmax_padded", "delta"])
def test_states_are_pytrees(made, name):
    module = made(name)
    q, k, v, given = whole(module, sizes(module))
    these, cut = part(module, q, k, v, given, slice(0, 4))
    _, state = module.attention(*these, **cut, return_state=True)
    leaves, structure = torch.utils._pytree.tree_flatten(state)
    again = torch.utils._pytree.tree_unflatten(leaves, structure)
    assert again.length == 4 and torch.utils._pytree.tree_flatten(again)[1] == structure
    rest, cut = part(module, q, k, v, given, slice(4, 6))
    want = module.reference(q, k, v, **given)[:, :, 4:]
    for copy in (again, state.detach(), state.to("cpu"), state.to(torch.float64)):
        close(module.attention(*rest, **cut, initial_state=copy), want)
    assert state.to(torch.bfloat16).length == 4
    if "doc" in given:
        assert state.to(torch.float32).doc.dtype == torch.int64


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("order", [[1], [1, 0, 1], torch.tensor([False, True])], ids=str)
def test_select(made, name, order):
    module = made(name)
    q, k, v, given = whole(module, sizes(module))

    def chosen(x, decl):
        batch = decl.axis_of("B")
        return x if batch is None else x.movedim(batch, 0)[order].movedim(0, batch)

    these, cut = part(module, q, k, v, given, slice(0, 4))
    _, state = module.attention(*these, **cut, return_state=True)
    rest, cut = part(module, q, k, v, given, slice(4, 6))
    want = module.attention(*rest, **cut, initial_state=state)[order]
    cut = {t.name: chosen(cut[t.name], t) for t in module.spec.tensors}
    close(
        module.attention(*(x[order] for x in rest), **cut, initial_state=state.select(order)), want
    )


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("empty", ["B", "L", "S", "LS"])
def test_empty_tensors(made, name, empty):
    module = made(name)
    n = sizes(module, **dict.fromkeys(empty, 0))
    q, k, v, given = whole(module, n)
    o, state = module.attention(q, k, v, **given, return_state=True)
    shape = [n["B"], n["H"], n["L"], faces.size_of(module, "value", n)]
    assert list(o.shape) == (shape if row_axis(module) == 2 else [shape[i] for i in (0, 2, 1, 3)])
    assert o.isfinite().all() and (n["S"] or (o == 0).all() or name == "value_of_two")
    assert state.length == n["S"]
    if empty == "LS":  # no token more
        _, after = module.attention(q, k, v, **given, initial_state=state, return_state=True)
        assert after.length == 0


def test_lse(made):
    module = made("softmax")
    q, k, v, _ = whole(module, sizes(module, G=4, Gv=4))
    o, lse = module.attention(q, k, v, return_lse=True)
    scores = (q @ k.mT / 2).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    close(lse, scores.logsumexp(-1))
    again = module.attention(q, k, v, return_lse=True, return_state=True)
    assert torch.equal(again[0], o) and torch.equal(again[1], lse) and again[2].length == 6


def test_strides_do_not_matter(made):
    module = made("linear_blhd")
    q, k, v, given = whole(module, sizes(module))
    want = module.reference(*(x.contiguous() for x in (q, k, v)), **given)
    close(module.attention(q, k, v, **given), want)
    close(module.attention(*(torch.stack([x, x], -1)[..., 0] for x in (q, k, v)), **given), want)


@pytest.mark.parametrize("name", ["linear", "softmax", "delta"])
def test_autocast_casts_the_rows(made, name):
    module = made(name)
    q, k, v, given = whole(module, sizes(module), torch.float32)
    low = [x.bfloat16() for x in (q, k, v)]
    want = module.attention(*low, **given)
    with torch.autocast("cpu", torch.bfloat16):
        o = module.attention(q, k, v, **given)
        assert module.attention(*(x.double() for x in (q, k, v)), **given).dtype == torch.float64
        reference = module.reference(q, k, v, **given)
    assert o.dtype == reference.dtype == torch.bfloat16
    assert torch.equal(o, want) and torch.equal(reference, want)


# what goes wrong: spec, keywords that replace the right ones, the error, its words
def _shape(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


WRONG = {
    "rank": ("linear", {"q": _shape(2, 6, 4)}, ValueError, "q: expected [B, Hq, L, d_k], got"),
    "no tensor": ("linear", {"v": [1.0]}, TypeError, "v: expected a tensor [B, Gv, S, d_v]"),
    "layout": ("linear_blhd", {"k": _shape(2, 6)}, ValueError, "k: expected [B, S, G, d_k], got"),
    "batch": ("linear", {"k": _shape(3, 2, 6, 4)}, ValueError, "k: expected B = 2, got 3"),
    "d_k": ("linear", {"k": _shape(2, 2, 6, 5)}, ValueError, "k: expected d_k as q has = 4, got 5"),
    "S": ("linear", {"v": _shape(2, 2, 5, 3)}, ValueError, "v: expected S as k has = 6, got 5"),
    "heads": ("linear", {"k": _shape(2, 3, 6, 4)}, ValueError, "k: expected heads that divide H = 4"),
    "fixed heads": ("retention", {"q": _shape(2, 8, 6, 4)}, ValueError, "q: expected heads that"),
    "fixed d_k": ("softmax_rope", {"q": _shape(2, 6, 4, 8), "k": _shape(2, 6, 2, 8)}, ValueError,
                  "q: expected d_k = 6, got 8"),
    "fixed d_v": ("softmax_rope", {"v": _shape(2, 6, 4, 8)}, ValueError, "v: expected d_v = 5"),
    "kv_heads": ("softmax_rope", {"k": _shape(2, 6, 4, 6)}, ValueError, "k: expected kv_heads = 2"),
    "v_heads": ("softmax_rope", {"v": _shape(2, 6, 2, 5)}, ValueError, "v: expected v_heads = 4"),
    "v like k": ("linear_blhd", {"v": _shape(2, 6, 1, 3)}, ValueError, "v: expected kv_heads = 2"),
    "dtypes": ("linear", {"k": _shape(2, 2, 6, 4, dtype=torch.float16)}, TypeError,
               "k: expected torch.float32 as q has, got torch.float16"),
    "integers": ("linear", {"q": _shape(2, 4, 6, 4, dtype=torch.int32)}, TypeError,
                 "q: expected a floating dtype, got torch.int32"),
    "devices": ("linear", {"v": _shape(2, 2, 6, 3, device="meta")}, ValueError,
                "v: expected it on cpu as q, got meta"),
    "missing": ("delta", {"beta": None}, TypeError, "beta: missing; expected a tensor [B, H, S]"),
    "missing dim": ("favor", {"W": None}, TypeError, "W: missing; expected a tensor [m, d_k]"),
    "unknown": ("delta", {"betta": _shape(2, 4, 6)}, TypeError, "betta: no such keyword; did you mean beta"),
    "unknown here": ("linear", {"frm": "auto"}, TypeError, "frm: no such keyword; did you mean form"),
    "far": ("linear", {"xyz": 1}, TypeError, "xyz: no such keyword; known: form, backend,"),
    "tensor rank": ("delta", {"g": _shape(2, 4)}, ValueError, "g: expected [B, H, S], got the shape [2, 4]"),
    "tensor size": ("delta", {"g": _shape(2, 4, 7)}, ValueError,
                    "g: expected [B, H, S] = [2, 4, 6], got [2, 4, 7]"),
    "tensor kind": ("softmax_padded", {"len": _shape(2)}, TypeError, "len: expected a tensor of int"),
    "tensor of whole": ("delta", {"g": _shape(2, 4, 6, dtype=torch.int64)}, TypeError,
                        "g: expected a tensor of float, got torch.int64"),
    "tensor device": ("delta", {"g": _shape(2, 4, 6, device="meta")}, ValueError, "g: expected it on cpu"),
    "tensor dtype": ("delta", {"g": _shape(2, 4, 6, dtype=torch.float64)}, TypeError,
                     "g: expected torch.float32 as q has"),
    "all keys": ("softmax_bias", {"bias": _shape(2, 4, 6, 5)}, ValueError,
                 "bias: expected [B, H, L, (n + S)] = [2, 4, 6, 6], got [2, 4, 6, 5]"),
    "form": ("linear", {"form": "fast"}, ValueError, "form: expected one of parallel, chunkwise, recurrent"),
    "absent form": ("softmax", {"form": "recurrent"}, ValueError,
                    "got 'recurrent': the similarity has no state of fixed size"),
    "backend": ("linear", {"backend": "cuda"}, ValueError, 'backend: expected "triton" or "torch"'),
    "no triton": ("linear", {"backend": "triton"}, ValueError, 'backend: "triton" is not installed'),
    "lse": ("linear", {"return_lse": True}, ValueError, "return_lse: only with similarity = exp(..)"),
    "state": ("linear", {"initial_state": (1, 2)}, TypeError, "initial_state: expected a State of this"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_what_is_wrong(made, case):
    name, replaced, kind, words = WRONG[case]
    module = made(name)
    n = sizes(module)
    q, k, v, given = whole(module, n, torch.float32)
    right = {"q": q, "k": k, "v": v} | given
    module.attention(**right)
    with pytest.raises(kind) as found:
        module.attention(**right | replaced)
    assert words in str(found.value)
    if not {"form", "backend"} & replaced.keys() and case != "unknown here":
        with pytest.raises(kind):
            module.reference(**right | replaced)


def test_errors_of_the_triton_backend(made, monkeypatch):
    module = made("linear")
    q, k, v = torch.zeros(3, 1, 1, 2, 4)
    monkeypatch.setattr(module, "triton", object())
    with pytest.raises(ValueError, match="needs tensors on a GPU, got cpu"):
        module.attention(q, k, v, backend="triton")
    monkeypatch.setattr(module, "INTERPRETED", True)
    with pytest.raises(TypeError, match='"triton" has no float64'):
        module.attention(*(x.double() for x in (q, k, v)), backend="triton")
    wide = torch.zeros(1, 1, 2, 257)
    for name, rows_ in {"q": (wide, wide, v), "v": (q, k, wide)}.items():
        with pytest.raises(ValueError, match=f"{name}: expected d_. <= 256 .* got 257"):
            module.attention(*rows_, backend="triton")
        assert module.attention(*rows_, backend="torch").shape == rows_[2].shape
    chosen = []
    monkeypatch.setattr(
        module, "_compute", lambda *_, backend, **__: chosen.append(backend) or 1 / 0
    )
    for x in (q, q.double()):
        with pytest.raises(ZeroDivisionError):
            module.attention(x, x, x)
    monkeypatch.setattr(module, "INTERPRETED", False)
    with pytest.raises(ZeroDivisionError):
        module.attention(q, k, v)
    assert chosen == ["triton", "torch", "torch"]


def test_errors_of_states(made):
    sums, cache = made("linear"), made("softmax")
    q, k, v = torch.zeros(3, 2, 4, 6, 4)
    for shape in ((2, 4, 4, 5), (1, 4, 4, 4)):
        state = sums.State(torch.zeros(shape), torch.zeros(shape[:3]), 1)
        with pytest.raises(ValueError, match=r"initial_state.S: expected \[2, 4, 4, 4\]"):
            sums.attention(q, k, v, initial_state=state)
    state = sums.init_state(2, heads=4, d_k=4, d_v=4)
    with pytest.raises(ValueError, match="q: expected L <= S = 5 beside a state, got 6"):
        sums.attention(q, k[:, :, :5], v[:, :, :5], initial_state=state)
    with pytest.raises(ValueError, match="initial_state.S: expected it on cpu, got meta"):
        sums.attention(q, k, v, initial_state=state.to("meta"))
    _, state = cache.attention(q, k, v, return_state=True)
    with pytest.raises(ValueError, match=r"k: expected \[2, 4, 6, 4\] beside this state"):
        cache.attention(q, k[:, :1], v, initial_state=state)
    with pytest.raises(TypeError, match=r"k: expected torch.float32 as in the state"):
        cache.attention(*(x.half() for x in (q, k, v)), initial_state=state)
    empty = cache.init_state(2, heads=4, d_k=4, d_v=4)
    assert cache.attention(*(x.half() for x in (q, k, v)), initial_state=empty).dtype == torch.half
    with pytest.raises(TypeError, match="initial_state: expected a State of this module"):
        cache.step(q[:, :, 0], k[:, :, 0], v[:, :, 0], sums.init_state(2, 4, d_k=4, d_v=4))
    with pytest.raises(ValueError, match=r"q_t: expected \[B, Hq, d_k\], got"):
        cache.step(q, k, v, state)
    with pytest.raises(ValueError, match="heads: missing"):
        sums.init_state(2, d_k=4, d_v=4)
    with pytest.raises(ValueError, match="d_v: missing"):
        cache.init_state(2, heads=4, d_k=4)
    with pytest.raises(ValueError, match="heads: expected 4 as the spec says, got 2"):
        made("retention").init_state(2, heads=2, d_k=4, d_v=4)
    with pytest.raises(ValueError, match="m: missing"):
        made("favor").init_state(2, heads=2, d_k=4, d_v=4)


def test_there_is_a_step_where_the_mask_is_causal(made):
    for name in ("everything", "softmax_of_all"):
        assert not hasattr(made(name), "step")
        with pytest.raises(
            AttributeError, match="no attribute 'step': the mask lets a row see later"
        ):
            _ = made(name).step
    assert hasattr(made("linear"), "step")


LAYERS = {name: {} for name in SPECS if name not in ("softmax_bias", "table")} | {"favor": {"m": 5}}


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer(made, name):
    module = made(name)
    heads = {} if module.spec.heads else {"heads": 4}
    layer = module.Attention(8, **heads, **LAYERS[name])
    n = sizes(module, G=layer.sizes["G"], d_k=layer.sizes["d_k"], d_v=layer.sizes["d_v"], B=2)
    x = torch.randn(2, 6, 8)
    given = {
        t.decl.name: tensors(module, n, torch.float32)[t.decl.name] for t in module.plan.inputs
    }
    want = layer(x, **given)
    assert want.shape == x.shape and want.isfinite().all()
    want.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
    other = module.Attention(8, **heads, **LAYERS[name])
    assert not torch.equal(other(x, **given), want)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x, **given), want)
    with pytest.raises(TypeError, match="no such keyword"):
        layer(x, **given, nothing=1)


def test_the_layer_goes_on(made):
    for name in ("linear", "softmax", "softmax_rope"):
        layer = made(name).Attention(12, kv_heads=2, heads=4).double()
        x = torch.randn(2, 6, 12, dtype=torch.float64)
        first, state = layer(x[:, :4], return_state=True)
        second, state = layer(x[:, 4:], state=state, return_state=True)
        close(torch.cat([first, second], 1), layer(x))
        assert state.length == 6


def test_the_layer_has_params_and_buffers(made, tmp_path):
    module = made("softmax_bias")
    layer = module.Attention(8, heads=2)
    assert torch.equal(layer.slope, torch.full((2,), 0.5)) and layer.slope.requires_grad
    x, bias, gate = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 3), torch.randn(1, 3, 4)
    layer(x, bias=bias, gate=gate).sum().backward()
    assert layer.slope.grad is not None
    buffer = made("favor").Attention(8, heads=2, m=5, bias=True)
    assert buffer.W.shape == (5, 4) and "W" in buffer.state_dict() and buffer.W.std() > 0.3
    assert buffer.q_proj.bias is not None and layer.q_proj.bias is None
    assert "heads=2, kv_heads=2" in repr(layer)
    with torch.no_grad():
        layer.slope.zero_()
        layer.reset_parameters()
    assert (layer.slope == 0.5).all()
    with pytest.raises(ValueError, match="kv_heads: expected a divisor of heads = 4, got 3"):
        made("softmax").Attention(8, heads=4, kv_heads=3)
    assert made("softmax").Attention(64).sizes["H"] == 8


def test_the_layer_reads_a_context(made):
    layer = made("softmax_of_all").Attention(8, heads=2)
    x, context = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    y = layer(x, context)
    q, k, v = layer.q_proj(x), layer.k_proj(context), layer.v_proj(context)
    q, k, v = (t.unflatten(2, (2, 4)).transpose(1, 2) for t in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    close(y, layer.o_proj(o.transpose(1, 2).flatten(2)), 1e-5)


def test_the_layer_learns(made):
    layer = made("linear").Attention(8, heads=2)
    x = torch.randn(4, 5, 8)
    optimizer = torch.optim.Adam(layer.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        loss = (layer(x) - x.cumsum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


NAMES = """
input unknown, x, q_t, o_t, torch, given : [B, H, S]
param training : [H]
buffer forward : [bias, d_model, capacity]
similarity = exp(q @ k + unknown[j] + x[j] + q_t[j] + o_t[j] + torch[j] + given[j] + training + forward[0, 1, 0])
mask = causal
align = lower_right
normalizer = on
"""


def test_names_of_a_spec_may_be_those_of_the_module(tmp_path):
    module = build(NAMES, tmp_path / "names.py")
    n = sizes(module, bias=1, d_model=2, capacity=1)
    q, k, v, given = whole(module, n)
    want = module.reference(q, k, v, **given)
    these, cut = part(module, q, k, v, given, slice(0, 5))
    _, state = module.attention(*these, **cut, return_state=True)
    these, cut = part(module, q, k, v, given, slice(5, 6))
    steps = {n: x[:, :, 0] if x.shape[-1] == 1 and x.dim() == 3 and n != "forward" else x
             for n, x in cut.items()}  # fmt: skip
    o, _ = module.step(*(x[:, :, 0] for x in these), state, **steps)
    close(o, want[:, :, 5])
    layer = module.Attention(8, heads=4, bias__=1, d_model__=2, capacity__=1).double()
    inputs = {t.decl.name: given[t.decl.name] for t in module.plan.inputs}
    assert layer(torch.randn(2, 6, 8, dtype=torch.float64), **inputs).isfinite().all()


def test_without_kernels_there_is_the_reference_alone(tmp_path):
    module = build(SPECS["linear"], tmp_path / "alone.py", kernels=False)
    q, k, v, _ = whole(module, sizes(module))
    first, state = module.reference(q[:, :, :2], k[:, :, :2], v[:, :, :2], return_state=True)
    second = module.reference(q[:, :, 2:], k[:, :, 2:], v[:, :, 2:], initial_state=state)
    close(torch.cat([first, second], 2), module.reference(q, k, v))
    assert not hasattr(module, "attention") and not hasattr(module, "Attention")


@pytest.mark.parametrize(
    "name", ["linear", "linear_padded", "softmax", "softmax_documents", "delta"]
)
def test_a_compiled_model_has_one_graph(made, name):
    module = made(name)
    q, k, v, given = whole(module, sizes(module))
    first, cut = part(module, q, k, v, given, slice(0, 3))
    rest, more = part(module, q, k, v, given, slice(3, 6))

    def model(first, cut, rest, more):
        one, state = module.attention(*first, **cut, return_state=True)
        two = module.attention(*rest, **more, initial_state=state)
        return torch.cat([one, two], 2)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    close(compiled(first, cut, rest, more), module.reference(q, k, v, **given))


def test_a_module_needs_torch_alone(made):
    source = made("linear").__file__
    code = f"import runpy, sys; runpy.run_path({source!r}); assert 'attnc' not in sys.modules"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)
