"""Names of PyTorch that programs and libraries of others import or use (nanoGPT, transformers, timm,
lightning, accelerate,
peft, torchmetrics, gpytorch, pyro, torch_geometric, captum, opacus, ...), by module."""

NAMES: dict[str, str] = {
    "": (
        "ScriptModule ScriptFunction "
        "SymInt SymFloat SymBool _assert _assert_async _check _shape_as_tensor spmm __config__ "
        "compiler export fx hub "
        "distributed futures jit profiler _dynamo _C _higher_order_ops _subclasses _utils _tensor_str"
    ),
    "compiler": (
        "is_compiling is_dynamo_compiling is_exporting disable reset allow_in_graph "
        "assume_constant_result compile "
        "cudagraph_mark_step_begin list_backends set_stance substitute_in_graph wrap_numpy"
    ),
    "_dynamo": (
        "is_compiling disable reset allow_in_graph disallow_in_graph assume_constant_result "
        "forbid_in_graph graph_break "
        "mark_dynamic mark_static mark_static_address maybe_mark_dynamic optimize OptimizedModule config "
        "list_backends"
    ),
    "_dynamo.eval_frame": "OptimizedModule",
    "_dynamo.utils": "is_compile_supported",
    "_dynamo.config": "suppress_errors cache_size_limit recompile_limit capture_scalar_outputs",
    "utils._pytree": (
        "register_pytree_node _register_pytree_node _dict_flatten _dict_unflatten "
        "_dict_flatten_with_keys tree_flatten "
        "tree_unflatten tree_map tree_map_only tree_leaves tree_iter PyTree TreeSpec Context "
        "tree_map_with_path tree_flatten_with_path keystr MappingKey SequenceKey GetAttrKey "
        "tree_flatten_with_path"
    ),
    "nn.parallel": "DistributedDataParallel DataParallel scatter gather data_parallel",
    "nn.parallel.distributed": "DistributedDataParallel",
    "nn.parallel.scatter_gather": "scatter gather scatter_kwargs is_namedtuple",
    "nn.parallel.data_parallel": "DataParallel",
    "nn.attention.flex_attention": "_DEFAULT_SPARSE_BLOCK_SIZE",
    "distributed": (
        "is_available is_initialized is_nccl_available is_gloo_available is_mpi_available is_ucc_available "
        "is_torchelastic_launched is_backend_available init_process_group destroy_process_group "
        "get_rank get_world_size "
        "get_backend all_reduce all_gather all_gather_object all_gather_into_tensor broadcast "
        "broadcast_object_list "
        "barrier new_group reduce reduce_scatter gather scatter send recv isend irecv all_to_all "
        "monitored_barrier "
        "get_process_group_ranks ReduceOp reduce_op group GroupMember ProcessGroup Backend Work "
        "Store TCPStore FileStore "
        "HashStore P2POp DeviceMesh distributed_c10d"
    ),
    "distributed.distributed_c10d": "ReduceOp ProcessGroup _get_default_group get_rank _object_to_tensor",
    "distributed.tensor": "DTensor DeviceMesh Replicate Shard Partial distribute_tensor distribute_module",
    "distributed.fsdp": "FullyShardedDataParallel ShardingStrategy MixedPrecision CPUOffload "
    "BackwardPrefetch StateDictType",
    "distributed.device_mesh": "DeviceMesh init_device_mesh",
    "distributed.checkpoint": "save load FileSystemReader FileSystemWriter",
    "distributed.algorithms.join": "Join Joinable JoinHook",
    "distributed.rpc": "init_rpc rpc_sync rpc_async shutdown",
    "distributed.utils": "_verify_param_shape_across_processes",
    "distributed.optim": "ZeroRedundancyOptimizer",
    "fx": "wrap GraphModule Tracer Proxy Node Graph symbolic_trace Interpreter Transformer replace_pattern",
    "fx.graph_module": "GraphModule _CodeOnlyModule _copy_attr _USER_PRESERVED_ATTRIBUTES_KEY",
    "fx.node": "Node map_arg map_aggregate Target Argument",
    "fx.proxy": "Proxy TraceError",
    "fx._symbolic_trace": "is_fx_tracing Tracer",
    "fx.experimental.proxy_tensor": "make_fx",
    "fx.experimental.symbolic_shapes": "guard_size_oblivious is_symbolic",
    "fx.passes.shape_prop": "ShapeProp",
    "export": "export ExportedProgram Dim save load",
    "onnx": (
        "export is_in_onnx_export OnnxExporterError register_custom_op_symbolic unregister_custom_op_symbolic "
        "TensorProtoDataType"
    ),
    "onnx.operators": "shape_as_tensor reshape_from_tensor_shape",
    "onnx.symbolic_helper": "parse_args",
    "onnx.symbolic_opset11": "add cat select squeeze unsqueeze",
    "ao.quantization": "QuantStub DeQuantStub QuantWrapper",
    "utils.flop_counter": "FlopCounterMode register_flop_formula",
    "utils.module_tracker": "ModuleTracker",
    "nn.modules.transformer": "_get_activation_fn",
    "hub": (
        "urlparse "
        "get_dir set_dir load list help load_state_dict_from_url download_url_to_file _get_torch_home HASH_REGEX"
    ),
    "profiler": "profile record_function ProfilerActivity schedule tensorboard_trace_handler",
    "autograd.profiler": "profile record_function emit_nvtx emit_itt",
    "futures": "Future collect_all wait_all",
    "__config__": "show parallel_info",
    "_C": (
        "_get_tracing_state _log_api_usage_once Generator _LinAlgError _functorch "
        "_disabled_torch_function_impl DisableTorchFunctionSubclass _nn ScriptModule ScriptFunction Value Graph "
        "_get_privateuse1_backend_name default_generator"
    ),
    "_subclasses.fake_tensor": "is_fake FakeTensor FakeTensorMode",
    "_subclasses": "FakeTensor FakeTensorMode",
    "serialization": "MAP_LOCATION load save",
    "ops": "load_library",
    "utils.checkpoint": "get_device_states set_device_states checkpoint checkpoint_sequential noop_context_fn",
    "utils._foreach_utils": (
        "_group_tensors_by_device_and_dtype _has_foreach_support _device_has_foreach_support "
        "_get_foreach_kernels_supported_devices"
    ),
    "quasirandom": "SobolEngine",
    "jit": "_script_if_tracing "
    "_overload _overload_method ScriptModule ScriptFunction RecursiveScriptModule annotations "
    "save load script_if_tracing",
    "jit.annotations": "parse_type_line get_signature BroadcastingList2 BroadcastingList3 List",
    "jit._script": "RecursiveScriptModule ScriptModule",
    "utils.data": (
        "IterDataPipe MapDataPipe Dataset IterableDataset DataLoader default_collate default_convert "
        "get_worker_info "
        "random_split SubsetRandomSampler WeightedRandomSampler ConcatDataset ChainDataset StackDataset"
    ),
    "utils.data.dataloader": "_collate_fn_t DataLoader default_collate",
    "utils.data.distributed": "DistributedSampler",
    "utils.data._utils.collate": "default_collate default_convert",
    "utils.data._utils.worker": "get_worker_info",
    "_tensor_str": "PRINT_OPTS _tensor_str",
    "optim.optimizer": (
        "_get_capturable_supported_devices "
        "_use_grad_for_differentiable _default_to_fused_or_foreach _get_value _stack_if_compiling "
        "_view_as_real _get_scalar_dtype _capturable_doc required ParamsT Optimizer _RequiredParameter"
    ),
    "optim.lr_scheduler": "_LRScheduler LRScheduler",
    "distributions.kl": "register_kl kl_divergence",
    "distributions.transforms": "_InverseTransform ComposeTransform",
    "distributions.utils": "broadcast_all probs_to_logits logits_to_probs lazy_property",
    "utils": "cpp_extension model_zoo collect_env",
    "utils.cpp_extension": "load load_inline CUDAExtension CppExtension BuildExtension CUDA_HOME",
    "utils.model_zoo": "load_url",
    "utils.collect_env": "get_pretty_env_info main",
    "utils._triton": "has_triton",
    "utils._contextlib": "_DecoratorContextManager",
    "utils._python_dispatch": "TorchDispatchMode",
    "utils.weak": "WeakIdKeyDictionary WeakTensorKeyDictionary",
    "utils.hooks": "RemovableHandle BackwardHook",
    "cuda": "CUDAGraph StreamContext graph Stream Event is_available device_count amp nvtx",
    "cuda.amp": "autocast GradScaler custom_fwd custom_bwd",
    "cuda.nvtx": "range_push range_pop",
    "autograd.graph": "saved_tensors_hooks save_on_cpu disable_saved_tensors_hooks register_multi_grad_hook Node",
    "autograd.function": "once_differentiable Function FunctionCtx InplaceFunction",
    "nn.modules.utils": "_pair _single _triple _ntuple consume_prefix_in_state_dict_if_present",
    "nn.modules.batchnorm": "_BatchNorm _NormBase",
    "nn.modules.conv": "_ConvNd",
    "nn.modules.module": "_addindent _IncompatibleKeys register_module_forward_hook",
    "nn.modules.loss": "_Loss _WeightedLoss",
    "nn.utils.rnn": "PackedSequence pad_sequence pack_padded_sequence pad_packed_sequence pack_sequence",
    "testing": "assert_close make_tensor",
    "multiprocessing": "get_context spawn set_start_method set_sharing_strategy Queue",
    "backends.cuda": "matmul sdp_kernel is_built",
    "backends.cudnn": "benchmark deterministic enabled is_available version",
    "backends.mps": "is_available is_built",
    "backends.mkldnn": "is_available",
    "backends.openmp": "is_available",
    "overrides": "is_tensor_like handle_torch_function has_torch_function",
    "sparse": "mm sum softmax",
    "_utils": "_flatten_dense_tensors _unflatten_dense_tensors _rebuild_tensor_v2",
    "_prims_common": "is_float_dtype",
    "_ops": "OpOverload HigherOrderOperator",
    "_vmap_internals": "_vmap",
    "storage": "TypedStorage UntypedStorage",
    "random": "fork_rng get_rng_state",
    "types": "Device Number Storage _size",
    "nested": "nested_tensor",
    "func": "functional_call vmap grad jacrev",
    "library": "custom_op register_fake impl_abstract Library",
    "xpu": "is_available empty_cache",
    "mps": "is_available empty_cache",
    "special": "expit",
    "version": "__version__ cuda hip debug",
    "return_types": "max",
}
