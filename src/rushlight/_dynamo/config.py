"""Settings of PyTorch's capture that programs assign to. They hold what was assigned, and this compiler
reads none of them: it runs what it cannot compile eagerly, as `suppress_errors` asks, and has limits of its own
(docs/compiler.md)."""

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
dynamic_shapes = assume_static_by_default = automatic_dynamic_shapes = True
optimize_ddp = True
inline_inbuilt_nn_modules = True
force_parameter_static_shapes = True
allow_unspec_int_on_nn_module = False
compiled_autograd = False
guard_nn_modules = True
